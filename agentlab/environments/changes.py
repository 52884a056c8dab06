"""What a run starts from: base data, with a task's initial state and its defects laid over it."""

from typing import Any

from agentlab.json_values import copy_json
from agentlab.records import JsonObject
from agentlab.tasks import Task


def merge_patch(base: Any, patch: Any) -> Any:
    """Return `base` with `patch` laid over it, by the rules of JSON Merge Patch: null removes a key.

    Source: RFC 7386, section 2. Neither argument is changed.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def starting_state(task: Task, base: JsonObject) -> JsonObject:
    """Return `base` with the task's `initial_state` and then the `changes` of its defects laid over it.

    The result shares nothing with its sources, so an environment may change it.
    """
    state = merge_patch(base, task.initial_state)
    for defect in task.defects:
        state = merge_patch(state, defect.changes)
    own: JsonObject = copy_json(state)
    return own
