"""agentlab: which LLM agent strategy should we use for our test flows, how sure are we, what does it cost?

Names are loaded on first use (PEP 562), so that `import agentlab` stays light.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "load_experiment": "agentlab.runner.spec",
    "run_experiment": "agentlab.runner.experiment",
    "load_runs": "agentlab.analysis.frames",
    "load_steps": "agentlab.analysis.frames",
    "load_calls": "agentlab.analysis.frames",
    "follow": "agentlab.report.follow",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'agentlab' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
