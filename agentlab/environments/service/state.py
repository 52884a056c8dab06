"""The simulated back-end services behind the tools: what was changed in their build, and what that does to them.

Everything is arithmetic on whole numbers and percentages; nothing is random but the ids, which follow from the seed.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from agentlab.environments.changes import merge_patch
from agentlab.errors import TaskError
from agentlab.json_values import copy_json
from agentlab.records import JsonObject

Component = Literal["database", "cache", "algorithm"]
Place = Literal["test", "production"]
COMPONENTS: tuple[Component, ...] = ("database", "cache", "algorithm")
PLACES: tuple[Place, ...] = ("test", "production")
Build = dict[str, str]
"""Changed component -> the design that is implemented in it; an unchanged build is empty."""
_CODES = {"database": "DB", "cache": "CACHE", "algorithm": "ALGO"}

_EXTRA: JsonObject = {"response_factor": 1.0, "errors_percent": 0.0, "cpu_percent": 0, "memory_mb": 0}


def _component(response_factor: float, cpu_percent: int, memory_mb: int) -> JsonObject:
    # A function, so that no two components share a list.
    return {
        "response_factors": [response_factor],
        "errors_percent": 0.0,
        "cpu_percent": cpu_percent,
        "memory_mb": memory_mb,
        "broken_tests": 0,
        "drops": [0],
        "refused_from": 0,
        "designs": [],
        "design": "",
        "implemented": [],
        "tries": 0,
    }


_SERVICE: JsonObject = {
    "baseline": {"response_ms": 800, "errors_percent": 0.4, "cpu_percent": 62, "memory_mb": 1500},
    "components": {
        "database": _component(0.7, -6, -120),
        "cache": _component(0.8, -4, 80),
        "algorithm": _component(0.7, -8, 0),
    },
    "extra": {"test": dict(_EXTRA), "production": dict(_EXTRA)},
    "deployed": {"test": {}, "production": {}},
    "checkpoints": {},
}
"""A service as it is where a task does not say otherwise; the README explains the fields."""
_WORK = ("design", "implemented")
"""What a checkpoint keeps of a component."""
_FREE = ("deployed.test", "deployed.production", "checkpoints")
"""Where the keys are names of the task's own."""


class ServiceState:
    """The services of one run. No method waits, so a change is seen whole or not at all."""

    def __init__(self) -> None:
        self.seed = 0
        self._services: JsonObject = {}
        self._effects: list[str] = []

    def load(self, services: JsonObject, seed: int, effects: list[str]) -> None:
        """Replace everything: service -> fields, of which left-out ones have their default.

        Raises:
            TaskError: an unknown field; lists the valid ones.
        """
        for name, fields in services.items():
            _refuse_unknown(name, fields, _SERVICE)
        self._services = {name: copy_json(merge_patch(_SERVICE, fields)) for name, fields in services.items()}
        self.seed = seed
        self._effects = list(effects)

    def content(self) -> JsonObject:
        """Return a copy of services, seed and effects, in the form that `load` takes."""
        return {"services": copy_json(self._services), "seed": self.seed, "effects": list(self._effects)}

    def facts(self) -> JsonObject:
        """Return `build`, `deployed`, `checkpoints` (per service), `deployments`, `rolled_back`, `effects`."""
        texts = [text.partition(": ")[2] for text in self._effects]
        return {
            "build": {name: sorted(self.build(name)) for name in self._services},
            "deployed": {
                name: {place: sorted(service["deployed"][place]) for place in PLACES}
                for name, service in self._services.items()
            },
            "checkpoints": {name: sorted(service["checkpoints"]) for name, service in self._services.items()},
            "deployments": sum(text.startswith("deploy ") for text in texts),
            "rolled_back": [text for text in texts if text.startswith(("roll back ", "restore "))],
            "effects": list(self._effects),
        }

    def names(self) -> list[str]:
        """Return the names of the services."""
        return list(self._services)

    def baseline(self, name: str) -> JsonObject:
        """Return the metrics of a service before any change."""
        return dict(self._services[name]["baseline"])

    def finding_id(self, name: str, component: Component) -> str:
        """Return the id under which the code analysis reports a component."""
        return f"{_CODES[component]}-FINDING-{self._digest(name, component)}"

    def component_of_finding(self, name: str, finding: str) -> Component | None:
        """Return the component that a finding of the service is about."""
        return next((part for part in COMPONENTS if self.finding_id(name, part) == finding), None)

    def component_of_design(self, name: str, design: str) -> Component | None:
        """Return the component that a design of the service is for, valid or not any more."""
        components = self._services[name]["components"]
        return next((part for part in COMPONENTS if design in components[part]["designs"]), None)

    def design(self, name: str, component: Component) -> str:
        """Return the id of the valid design of a component; a new one when there is none or it is implemented."""
        part = self._part(name, component)
        if not part["design"] or self.is_in_use(name, component):
            version = len(part["designs"]) + 1
            part["design"] = f"{_CODES[component]}-DESIGN-{version}-{self._digest(name, component, str(version))}"
            part["designs"].append(part["design"])
            part["tries"] = 0
            self._note(name, f"design {component} {version}")
        return str(part["design"])

    def is_valid(self, name: str, component: Component, design: str) -> bool:
        """Return whether the design is the component's latest and was not discarded."""
        return bool(design) and self._part(name, component)["design"] == design

    def is_in_use(self, name: str, component: Component) -> bool:
        """Return whether the component's valid design is in the build."""
        part = self._part(name, component)
        return part["design"] in part["implemented"]

    def is_implemented(self, name: str, component: Component, design: str) -> bool:
        """Return whether the design is in the build, be it under a later one."""
        return design in self._part(name, component)["implemented"]

    def discard(self, name: str, component: Component) -> bool:
        """Discard the component's valid design; return whether there was one."""
        part = self._part(name, component)
        had_design = bool(part["design"])
        if had_design:
            self._note(name, f"discard design {component} {_version(part)}")
        part["design"], part["tries"] = "", 0
        return had_design

    def obstacle(self, name: str, component: Component) -> str:
        """Return what keeps the valid design from being implemented now: `dropped`, `refused` or nothing.

        A dropped connection counts as a try, so the same design may succeed later.
        """
        part = self._part(name, component)
        version = _version(part)
        if 0 < part["refused_from"] <= version:
            return "refused"
        drops = _of_version(part["drops"], version)
        if drops is not None and part["tries"] >= drops:
            return ""
        part["tries"] += 1
        return "dropped"

    def implement(self, name: str, component: Component, design: str) -> None:
        """Put a design into the build, over an earlier one of the component."""
        part = self._part(name, component)
        part["implemented"].append(design)
        self._note(name, f"implement {component} {part['designs'].index(design) + 1}")

    def take_out(self, name: str, component: Component, design: str) -> bool:
        """Take a design out of the build, and those over it; return whether it was in."""
        part = self._part(name, component)
        if design not in part["implemented"]:
            return False
        del part["implemented"][part["implemented"].index(design) :]
        self._note(name, f"roll back {component}")
        return True

    def build(self, name: str) -> Build:
        """Return the build in the lab: changed component -> design."""
        parts = self._services[name]["components"]
        return {part: str(parts[part]["implemented"][-1]) for part in COMPONENTS if parts[part]["implemented"]}

    def deployed(self, name: str, place: Place) -> Build:
        """Return the build that an environment runs; empty for the original version."""
        return dict(self._services[name]["deployed"][place])

    def deploy(self, name: str, place: Place) -> None:
        """Let an environment run the build of the lab."""
        self._services[name]["deployed"][place] = self.build(name)
        self._note(name, f"deploy {place}")

    def undeploy(self, name: str, place: Place) -> bool:
        """Let an environment run the original version; return whether it ran another."""
        had_build = bool(self._services[name]["deployed"][place])
        if had_build:
            self._note(name, f"roll back deployment {place}")
        self._services[name]["deployed"][place] = {}
        return had_build

    def checkpoint(self, name: str, label: str) -> JsonObject | None:
        """Return what a checkpoint holds; None when there is none of that name."""
        found: JsonObject | None = self._services[name]["checkpoints"].get(label)
        return copy_json(found)

    def work(self, name: str) -> JsonObject:
        """Return a copy of the work on a service as a checkpoint keeps it: valid designs and the build."""
        parts = self._services[name]["components"]
        return {part: copy_json({key: parts[part][key] for key in _WORK}) for part in COMPONENTS}

    def keep(self, name: str, label: str) -> None:
        """Keep the work on a service as a checkpoint."""
        self._services[name]["checkpoints"][label] = self.work(name)
        self._note(name, f"checkpoint {label}")

    def bring_back(self, name: str, label: str) -> None:
        """Bring the work on a service back to a checkpoint, which stays; ids of later designs are not used again."""
        for part, kept in copy_json(self._services[name]["checkpoints"][label]).items():
            self._part(name, part).update(kept)
        self._note(name, f"restore {label}")

    def broken_tests(self, name: str) -> int:
        """Return how many regression tests the build breaks."""
        return sum(self._part(name, part)["broken_tests"] for part in self.build(name))

    def metrics(self, name: str, build: Mapping[str, str], place: Place | None = None) -> JsonObject:
        """Return response time, error rate, CPU and memory of a build, in the lab or in an environment."""
        after = self.baseline(name)
        added = [self._effect_of(name, part, design) for part, design in build.items()]
        if place is not None and build:
            added.append(self._services[name]["extra"][place])
        for effect in added:
            after["response_ms"] *= effect["response_factor"]
            for key in ("errors_percent", "cpu_percent", "memory_mb"):
                after[key] += effect[key]
        return {
            **after,
            "response_ms": round(after["response_ms"]),
            "errors_percent": round(after["errors_percent"], 2),
        }

    def _effect_of(self, name: str, component: str, design: str) -> JsonObject:
        part = self._part(name, component)
        factor = _of_version(part["response_factors"], part["designs"].index(design) + 1)
        return {**{key: part[key] for key in _EXTRA if key in part}, "response_factor": factor}

    def _part(self, name: str, component: str) -> JsonObject:
        part: JsonObject = self._services[name]["components"][component]
        return part

    def _digest(self, *parts: str) -> str:
        return hashlib.sha256(":".join((str(self.seed), *parts)).encode()).hexdigest()[:4]

    def _note(self, name: str, effect: str) -> None:
        self._effects.append(f"{name}: {effect}")


def _version(part: JsonObject) -> int:
    """Which design of its component the valid one is, from 1."""
    return int(part["designs"].index(part["design"]) + 1)


def _of_version(values: list[Any], version: int) -> Any:
    """The value for the design of that version; the last one holds for all further designs."""
    return values[min(version, len(values)) - 1]


def _refuse_unknown(path: str, fields: Any, known: JsonObject) -> None:
    if not isinstance(fields, dict):
        raise TaskError(f"{path}: {fields!r} must be an object with fields of {', '.join(known)}.")
    for key, value in fields.items():
        if key not in known:
            raise TaskError(f"{path}: there is no field {key!r}. Valid: {', '.join(known)}.")
        inner = known[key]
        if isinstance(inner, dict) and not f"{path}.{key}".endswith(_FREE):
            _refuse_unknown(f"{path}.{key}", value, inner)
