import ast
import subprocess
import sys
from pathlib import Path

import agentlab

PACKAGE = Path(agentlab.__file__).parent

# A module imports only from layers above its own (DESIGN 2).
LAYERS = [
    {"errors", "records", "columns", "json_values", "secrets", "tokens", "workers", "html_text", "references"}
    | {"output_places"},
    {"evidence", "tasks", "tools", "budget", "trace", "observations", "tool_execution", "prompts"}
    | {"plan_rules", "approvals", "calls_made"},
    {"store", "store_connection", "store_tables", "answers"},
    {"environments", "models"},
    {"session"},
    {"planning"},
    {"strategies"},
    {"scoring"},
    {"runner"},
    {"analysis"},
    {"report"},
    {"notebooks", "notebook_process", "cli", "demo", "serve"},
]
LEVEL = {name: index for index, layer in enumerate(LAYERS) for name in layer}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        found |= {name.split(".")[1] for name in names if name.startswith("agentlab.")}
    return found


def test_every_import_points_upwards() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        assert own in LEVEL, f"{own} has no layer in this test"
        wrong += [f"{path.name}: {own} imports {name}" for name in _imports(path) if LEVEL[name] > LEVEL[own]]
    assert wrong == []


def test_nothing_heavy_is_loaded_by_import_agentlab() -> None:
    heavy = "openai pydantic sqlalchemy networkx numpy jsonschema pandas matplotlib scipy asyncio typer".split()  # noqa: SIM905
    code = f"import sys, agentlab; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == "[]"


def test_every_exported_name_exists() -> None:
    for name in agentlab.__all__:
        assert getattr(agentlab, name) is not None
    assert set(agentlab.__all__) <= set(dir(agentlab))
