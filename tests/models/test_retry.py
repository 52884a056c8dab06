import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from agentlab.models.retry import LONGEST_WAIT_S, RetryPolicy, is_repeatable, retry_after_s

CASES = json.loads((Path(__file__).parents[1] / "cases" / "chat_responses.json").read_text(encoding="utf-8"))["cases"]
A26 = next(case for case in CASES if case["id"] == "A26")["input"]["retry_after"]
NOW = datetime.datetime(2026, 10, 21, 7, 28, tzinfo=datetime.UTC)
POLICY = RetryPolicy(max_sends=4, base_s=1.0, cap_s=3.0)


@pytest.mark.parametrize("case", A26["cases"], ids=lambda case: str(case["header"]))
def test_a26_the_wait_is_the_one_given(case: dict[str, Any]) -> None:
    assert A26["now"] == "Wed, 21 Oct 2026 07:28:00 GMT"
    headers = {} if case["header"] is None else {"retry-after": case["header"]}
    wait = POLICY.wait_s("server_error", 1, headers, NOW, draw=0.0)
    accepted = case.get("wait_seconds_any_of", [case.get("wait_seconds")])
    assert wait in accepted or ("own backoff" in accepted and wait == POLICY.backoff_s(1, 0.0))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "3600"}, LONGEST_WAIT_S),
        ({"retry-after": "Wed, 21 Oct 2026 09:28:00 GMT"}, LONGEST_WAIT_S),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:07"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 99 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_bounded_and_never_raises(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@pytest.mark.parametrize(
    ("problem", "sends", "expected"),
    [
        ("transport", 1, True),
        ("server_error", 3, True),
        ("no_choices", 1, True),
        ("no_choices", 2, False),
        ("quota_exhausted", 1, False),
        ("context_too_long", 1, False),
        ("content_filtered", 1, False),
        ("request_refused", 1, False),
        ("empty_answer", 1, False),
        ("truncated", 1, False),
        ("call_in_text", 1, False),
        (None, 1, False),
    ],
)
def test_what_is_repeated(problem: str | None, sends: int, expected: bool) -> None:
    assert is_repeatable(problem, sends) is expected


def test_the_last_send_is_not_repeated() -> None:
    waits = [POLICY.wait_s("server_error", sends, {}, NOW, draw=1.0) for sends in range(1, 6)]
    assert waits == [1.0, 2.0, 3.0, None, None]


def test_backoff_doubles_to_the_cap_and_half_of_it_is_drawn() -> None:
    assert [POLICY.backoff_s(sends, 1.0) for sends in (1, 2, 3, 9)] == [1.0, 2.0, 3.0, 3.0]
    assert [POLICY.backoff_s(sends, 0.0) for sends in (1, 2, 3, 9)] == [0.5, 1.0, 1.5, 1.5]
    assert POLICY.backoff_s(1_000, 1.0) == 3.0
