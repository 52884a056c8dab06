"""`constrained: on` is recorded where the model's replies are really bound, and nowhere else."""

import sys
from pathlib import Path

import pytest
from fake_chat_server import ChatServer

from agentlab.models.local import LocalModel
from agentlab.models.local_files import SERVED, LocalFile
from agentlab.records import Model
from agentlab.runner.build import ModelPool, PlannedRun, plan_runs
from agentlab.runner.spec import Experiment


class StubPool(ModelPool):
    """A local model whose server would be a stub; none is started."""

    def get(self, name: str) -> Model:
        if not name.startswith("local:"):
            return super().get(name)
        return LocalModel(LocalFile("stub", Path("stub.gguf"), None, SERVED), (sys.executable, "-c", ""))


def planned(model: str, *, constrained: bool) -> dict[str, PlannedRun]:
    experiment = Experiment(
        name="bound",
        suites=("orders",),
        tasks=("order-1001",),
        strategies=("tool_loop", "react"),
        models=(model,),
        repeats=1,
        constrained=constrained,
    )
    return {run.cell.strategy.name: run for run in plan_runs(experiment, StubPool())}


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
def test_a_local_model_is_bound_for_both_strategies(strategy: str) -> None:
    bound = planned("local:stub", constrained=True)[strategy]
    free = planned("local:stub", constrained=False)[strategy]
    assert (bound.row["constrained"], bound.settings.constrained) == ("on", True)
    assert (free.row["constrained"], free.settings.constrained) == ("off", False)
    assert bound.run_id != free.run_id


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
def test_an_endpoint_that_cannot_bind_these_formats_is_recorded_as_off(endpoint: ChatServer, strategy: str) -> None:
    bound = planned("openai:any", constrained=True)[strategy]
    assert (bound.row["constrained"], bound.settings.constrained) == ("off", False)
    assert bound.run_id == planned("openai:any", constrained=False)[strategy].run_id
