import inspect

from agentlab import errors
from agentlab.errors import AgentLabError, unknown_name


def test_the_drawing_of_the_tree_is_the_code() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        if line.startswith("    "):
            depth, name = len(line) - len(line.lstrip()), line.strip()
            path = [item for item in path if item[0] < depth]
            drawn[name] = path[-1][1] if path else "Exception"
            path.append((depth, name))
    classes = {
        name: cls for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, AgentLabError)
    }
    assert drawn == {name: cls.__bases__[0].__name__ for name, cls in classes.items()}


def test_an_unknown_name_lists_the_valid_ones_and_guesses() -> None:
    text = str(unknown_name("strategy", "raect", ["tool_loop", "react"]))
    assert "Did you mean 'react'" in text
    assert "Valid: react, tool_loop" in text
