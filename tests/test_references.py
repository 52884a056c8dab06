import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlab.errors import UnresolvedReference
from agentlab.references import Reference, parse_reference, parse_values, references_in, resolve, values_to_json

NAMES = {"1": "1", "3.1": "3.1", "40th": "40th", "sales": "1"}


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("steps.1.output", Reference("1")),
        ("steps.1.output.items[0].id", Reference("1", ("items", 0, "id"))),
        ("steps.3.1.output[-1]", Reference("3.1", (-1,))),
        ('steps.1.output["a b"].c', Reference("1", ("a b", "c"))),
        ("steps.1.output['订单'].编号", Reference("1", ("订单", "编号"))),
        ("$steps.1.output.x", Reference("1", ("x",))),
        ("${steps.1.output.x}", Reference("1", ("x",))),
        ("{{ steps.1.output.x }}", Reference("1", ("x",))),
        ("steps.1", Reference("1")),
        ("$steps.1", Reference("1")),
        ("steps.sales.output.x", Reference("1", ("x",))),
        ("$sales", Reference("1")),
        ("$40th.x", Reference("40th", ("x",))),
        ("${1.x}", Reference("1", ("x",))),
        ("${sales.items[1]}", Reference("1", ("items", 1))),
        ("steps.9.output", Reference("9")),
        ("steps.1.output.output", Reference("1", ("output",))),
    ],
)
def test_every_spelling_has_one_form(text: str, reference: Reference) -> None:
    assert parse_reference(text, NAMES) == reference
    assert parse_reference(reference.text()) == reference


@pytest.mark.parametrize(
    "text",
    [
        "steps are fine",
        "sales",
        "item",
        "item.id",
        "$5.00",
        "",
        "steps",
        "see steps",
        "the steps.1 and 2",
        "output",
        "a$b",
        "$1",
        "$3.1",
        "${1}",
    ],
)
def test_other_text_is_no_reference(text: str) -> None:
    assert parse_reference(text, NAMES) is None
    assert parse_values({"a": text}, NAMES) == {"a": text}


def test_the_item_is_a_reference_only_inside_a_map_step() -> None:
    assert parse_values(["item", "item.id", "$item", "items", "item. Then"], in_map=True) == [
        Reference(None), Reference(None, ("id",)), Reference(None), "items", "item. Then",
    ]  # fmt: skip
    assert resolve(Reference(None, ("id",)), {}, {"id": 7}) == 7
    with pytest.raises(UnresolvedReference, match="item only inside a map step"):
        resolve(Reference(None), {})


def test_wrapped_forms_and_the_way_to_pass_the_text_itself() -> None:
    written = {
        "a": {"type": "reference", "path": "steps.1.output"},
        "b": {"$ref": "sales.x"},
        "c": {"type": "literal", "value": "steps.1.output"},
        "d": [{"type": "literal", "value": {"$ref": "steps.1.output"}}],
        "e": {"type": "reference"},
    }
    read = parse_values(written, NAMES)
    assert read["a"] == Reference("1")
    assert read["b"] == Reference("1", ("x",))
    assert read["c"] == "steps.1.output"
    assert read["d"] == [{"$ref": "steps.1.output"}]
    assert read["e"] == {"type": "reference"}
    assert list(references_in(read)) == [Reference("1"), Reference("1", ("x",))]


@pytest.mark.parametrize(
    "text",
    [
        "Report on ${steps.1.output.name}", "{{steps.1.output}} and more", "see steps.1.output for it",
        "steps.1.output.items[*].id", "steps[1].output", "steps.1.output.a b", "$steps", "{{item.id}}",
        'steps.1.output["\\q"]',
    ],
)  # fmt: skip
def test_what_looks_like_a_reference_is_reported(text: str) -> None:
    bad: list[str] = []
    assert parse_values({"x": text}, NAMES, bad=bad) == {"x": text}
    assert bad == [text]


def test_an_explicit_reference_that_cannot_be_read_is_reported() -> None:
    bad: list[str] = []
    parse_values({"x": {"$ref": "nobody knows"}}, NAMES, bad=bad)
    assert bad == ["nobody knows"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps.1.output.items[0].id", "steps.1.output.items[0].id leads nowhere: items has 0 entries."),
        ("steps.1.output.order.x", "order has no 'x'; it has id, lines"),
        ("steps.1.output.order.lines.x", "lines is a list of 1 entry, so it has no 'x'; pick one entry with [0]"),
        ("steps.1.output.order.lines[1]", "lines has 1 entry."),
        ("steps.1.output.order.lines[-2]", "lines has 1 entry."),
        ("steps.1.output.order.id.x", "id is \"O1\", so it has no 'x'"),
        ("steps.1.output.nothing.x", "nothing is null, so it has no 'x'"),
        ("steps.1.output.order.lines[0].n", "entry [0] of lines is 5, so it has no 'n'"),
        ("steps.2.output.x", "step 2 has no output"),
        ("steps.1.output.empty.x", "it has no fields"),
    ],
)
def test_an_error_names_the_path_and_what_is_there(text: str, words: str) -> None:
    output = {"items": [], "order": {"id": "O1", "lines": [5]}, "nothing": None, "empty": {}}
    with pytest.raises(UnresolvedReference) as caught:
        resolve(parse_values({"a": [text]}), {"1": output})
    assert words in str(caught.value)
    assert text in str(caught.value)


def test_paths_resolve_in_lists_objects_and_number_keys() -> None:
    outputs = {"1": {"a": [{"b": 1}, {"b": 2}], "5": "five"}}
    values = ["steps.1.output.a[-1].b", "steps.1.output.a.0.b", "steps.1.output[5]", "steps.1.output.a"]
    assert resolve(parse_values(values), outputs) == [2, 1, "five", [{"b": 1}, {"b": 2}]]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        ["steps.1.output", "$x", "item", "item.a", "{{steps.2.output}}", "see steps.1.output", "steps.x"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.sampled_from(["$ref", "type", "value", "path"]), inner, max_size=3)
        | st.fixed_dictionaries({"type": st.sampled_from(["literal", "reference"]), "value": inner})
        | st.fixed_dictionaries({"type": st.just("reference"), "path": st.text()})
    ),
    max_leaves=12,
)
PIECES = st.lists(st.text(min_size=1) | st.integers(-9, 9), max_size=3).map(tuple)


@given(value=JSON, path=PIECES, in_map=st.booleans())
def test_any_arguments_come_back_from_their_stored_form(value: Any, path: tuple[str | int, ...], in_map: bool) -> None:
    arguments = {"a": value, "b": [Reference("3.1", path)], "c": Reference(None, path) if in_map else 1}
    stored = json.loads(json.dumps({name: values_to_json(entry) for name, entry in arguments.items()}))
    bad: list[str] = []
    assert {name: parse_values(entry, in_map=in_map, bad=bad) for name, entry in stored.items()} == arguments
    assert bad == []


@given(value=JSON)
def test_whatever_is_written_can_be_read_and_no_reference_stays(value: Any) -> None:
    read = parse_values(value, NAMES, in_map=True)
    outputs = {str(reference.step): {"a": [1]} for reference in references_in(read)}
    if all(not reference.path for reference in references_in(read)):
        assert list(references_in(resolve(read, outputs, {"b": 2}))) == []
