import pytest

from agentlab.budget import Budget, Meter
from agentlab.errors import BudgetExceeded
from agentlab.records import Reply, Send, Usage


def test_a_charge_adds_known_tokens_and_counts_unknown_ones() -> None:
    meter = Meter(Budget(total_tokens=1000))
    meter.charge(Reply(usage=Usage(100, 20, 50, 5), cost_usd=0.1, latency_s=2.0), estimated_tokens=999)
    meter.charge(Reply(), estimated_tokens=30)
    assert (meter.input_tokens, meter.output_tokens, meter.cached_input_tokens, meter.reasoning_tokens) == (
        100,
        20,
        50,
        5,
    )
    assert (meter.total_tokens, meter.estimated_tokens, meter.unknown_usage_calls, meter.unpriced_calls) == (
        120,
        30,
        1,
        1,
    )
    assert (meter.cost_usd, meter.work_s) == (0.1, 2.0)
    assert meter.remaining() == {
        "model_calls": None,
        "tool_calls": None,
        "total_tokens": 850,
        "cost_usd": None,
        "work_s": None,
    }


def test_a_failed_send_that_was_billed_counts() -> None:
    meter = Meter(Budget())
    usage = Usage(10, 5)
    meter.charge(
        Reply(usage=usage, sends=(Send(500, 1.0, usage=Usage(7, 0)), Send(200, 1.0, usage=usage))), estimated_tokens=0
    )
    assert meter.total_tokens == 22


@pytest.mark.parametrize(
    ("budget", "spend"),
    [
        ({"total_tokens": 10}, Reply(usage=Usage(9, 1))),
        ({"cost_usd": 0.5}, Reply(cost_usd=0.5)),
        ({"work_s": 3}, Reply(latency_s=3.0)),
    ],
)
def test_a_spent_limit_refuses_models_and_tools(budget: dict[str, float], spend: Reply) -> None:
    meter = Meter(Budget.model_validate(budget))
    meter.reserve_model_call()
    meter.reserve_tool_call()
    meter.charge(spend, estimated_tokens=0)
    for reserve in (meter.reserve_model_call, meter.reserve_tool_call):
        with pytest.raises(BudgetExceeded) as stop:
            reserve()
        assert stop.value.end_reason == f"budget_{next(iter(budget))}"
    assert meter.bound == next(iter(budget))
    assert meter.model_calls == meter.tool_calls == 1


def test_total_tokens_are_unknown_when_a_part_is() -> None:
    assert Usage(1, None).total_tokens is None
    assert Usage(1, 2).total_tokens == 3
