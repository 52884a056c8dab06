"""Models that know the task's reference and err by a published error model (`docs/simulated-models.md`).

They exercise strategies, budgets, statistics and reports for nothing, in no time and the same way every time.
What they show is no evidence about any model.
"""

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from agentlab.errors import ConfigError, unknown_name
from agentlab.json_values import copy_json, dumps
from agentlab.records import (
    Answer,
    CallIntent,
    Finding,
    FinishIntent,
    Intent,
    JsonObject,
    Message,
    ModelRequest,
    PlanIntent,
    Reply,
    RequestContext,
    ToolResult,
    Usage,
    verdict_of,
)
from agentlab.tasks import NO_TRUTH_TAG, Criterion, ReferenceStep, RequiredCall, Task, resolve_references
from agentlab.tokens import estimate_tokens
from agentlab.tools import Tool

MESSAGE_TOKENS = 4
"""Estimated tokens of a message beside its text (role, separators)."""

Steps = tuple[tuple[str, JsonObject, ToolResult], ...]
_Result = tuple[str, ToolResult]


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """Probabilities of the faults of a profile. All zero is a model without fault."""

    skip_check: float = 0.0
    """Per reference step that no other step builds on: it is left out."""
    misread_verdict: float = 0.0
    """Per observed criterion: passed is reported as failed and the other way round."""
    premature_finish: float = 0.0
    """Per reply after the first executed call: the answer is handed in with steps left."""
    claim_unseen: float = 0.0
    """Per criterion that no result shows: passed is reported in place of not_evaluated."""
    wrong_argument: float = 0.0
    """Per call: the first argument gets another value."""
    hallucinated_tool: float = 0.0
    """Per call: a tool is named that does not exist."""
    repeated_call: float = 0.0
    """Per call after the first: the call before is made again."""
    malformed: float = 0.0
    """Per reply: it cannot be read."""
    decay_after_tokens: int | None = None
    """Estimated tokens of a request beyond which attention decays; None: it never does."""
    decay_per_1000_tokens: float = 0.0
    """Added to the decaying faults for each 1000 tokens beyond."""
    decay_most: float = 0.0
    """Most that is added."""

    def at(self, input_tokens: int) -> "ErrorModel":
        """Return the error model as it is for a request of that many tokens."""
        if self.decay_after_tokens is None or input_tokens <= self.decay_after_tokens:
            return self
        beyond = (input_tokens - self.decay_after_tokens) / 1000
        added = min(self.decay_most, beyond * self.decay_per_1000_tokens)
        return dataclasses.replace(self, **{name: min(1.0, getattr(self, name) + added) for name in DECAYING})


DECAYING = ("skip_check", "misread_verdict", "premature_finish", "wrong_argument", "repeated_call")
"""The faults that grow with the context."""

PROFILES: dict[str, ErrorModel] = {
    "perfect": ErrorModel(),
    "careless": ErrorModel(
        skip_check=0.08,
        misread_verdict=0.05,
        premature_finish=0.03,
        claim_unseen=0.5,
        wrong_argument=0.03,
        hallucinated_tool=0.02,
        repeated_call=0.03,
        malformed=0.02,
    ),
    "malformed": ErrorModel(malformed=0.25),
    "context_decay": ErrorModel(claim_unseen=0.5, decay_after_tokens=1500, decay_per_1000_tokens=0.05, decay_most=0.3),
}


class SimulatedModel:
    """Follows the task's reference, reads verdicts from the results it has seen, and errs as its profile says.

    It keeps no state: what is done and seen comes with each request, so one object may serve many runs at once.
    Draws depend on seed, task, repeat, actor and occurrence, not on the strategy.

    Args:
        profile: name of the error model.
        errors: the error model, where it is not the published one of that name.

    Raises:
        ConfigError: no profile of that name; lists those that exist.
    """

    kind: Literal["real", "local", "simulated", "scripted", "replay"] = "simulated"

    def __init__(self, profile: str, errors: ErrorModel | None = None) -> None:
        if errors is None and profile not in PROFILES:
            raise unknown_name("simulated model", profile, PROFILES)
        self.name = f"simulated:{profile}"
        self._errors = errors if errors is not None else PROFILES[profile]
        self._schema_tokens: WeakKeyDictionary[Tool, int] = WeakKeyDictionary()

    @property
    def capabilities(self) -> frozenset[str]:
        """What it takes part in: tools, stop sequences, seeds."""
        return frozenset({"tools", "stop", "seed"})

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply; usage is an estimate, cost is unknown.

        Raises:
            ConfigError: the task has no truth to simulate from.
        """
        started = time.perf_counter()
        task = _task_of(request)
        input_tokens = self._input_tokens(request)
        errors = self._errors.at(input_tokens)
        draws = _Draws(request.context, task)
        intent = _intent(request, task, errors, draws)
        reply = request.format.write(intent)
        context = request.context
        calls = tuple(
            dataclasses.replace(call, id=f"{context.actor}_{context.occurrence}_{index}")
            for index, call in enumerate(reply.tool_calls)
        )
        usage = Usage(input_tokens, _output_tokens(reply), source="simulated")
        if draws.hit("malformed", errors.malformed):
            reply, calls = _malformed(reply, request, draws), ()
        return dataclasses.replace(
            reply, tool_calls=calls, usage=usage, model=self.name, latency_s=time.perf_counter() - started
        )

    async def close(self) -> None:
        """Nothing is held."""

    def _input_tokens(self, request: ModelRequest) -> int:
        tokens = sum(_message_tokens(message) for message in request.messages)
        if request.tool_schemas:
            for tool in request.tools:
                if tool not in self._schema_tokens:
                    self._schema_tokens[tool] = _json_tokens(tool.native_schema(request.context.language))
                tokens += self._schema_tokens[tool]
        return tokens


def build(profile: str) -> SimulatedModel:
    """Return the model of `simulated:PROFILE`; an unknown profile is a `ConfigError` that lists those that exist."""
    return SimulatedModel(profile)


class _Draws:
    """Random numbers of one request: each depends on where the request stands and on what it decides."""

    def __init__(self, context: RequestContext, task: Task) -> None:
        self._run = f"{context.seed}|{task.cluster}/{task.id}|{context.repeat}|{context.actor}"
        self._occurrence = context.occurrence

    def hit(self, fault: str, probability: float, subject: str | None = None) -> bool:
        """Return whether a fault happens; with a subject the draw is the same in every request of the run."""
        return probability > 0 and self.uniform(fault, subject) < probability

    def uniform(self, fault: str, subject: str | None = None) -> float:
        """Return a number in [0, 1)."""
        key = f"{self._run}|{self._occurrence if subject is None else subject}|{fault}"
        return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2**64


def _task_of(request: ModelRequest) -> Task:
    task = request.context.task
    if not isinstance(task, Task) or NO_TRUTH_TAG in task.tags:
        raise ConfigError(
            "A simulated model answers from the task's truth, and this task is free text without one. "
            "Use a task of a suite, or a real model (openai:..., replay:FILE)."
        )
    return task


def _intent(request: ModelRequest, task: Task, errors: ErrorModel, draws: _Draws) -> Intent:
    context = request.context
    if request.format.expects == "plan":
        return PlanIntent(_plan(task, errors, draws))
    step = _next_step(request, task, errors, draws)
    if step is None or (context.steps and draws.hit("premature_finish", errors.premature_finish)):
        return FinishIntent(_answer(task, context, errors, draws), _WORDS[context.language]["done"])
    name, arguments = step[0], _by_handle(step[1], context)
    if draws.hit("hallucinated_tool", errors.hallucinated_tool):
        name = f"{name}_details"
    elif context.steps and draws.hit("repeated_call", errors.repeated_call):
        name, arguments = context.steps[-1][0], _by_handle(context.steps[-1][1], context)
    elif draws.hit("wrong_argument", errors.wrong_argument):
        arguments = _with_wrong_argument(arguments)
    return CallIntent(((name, arguments),), _WORDS[context.language]["next"].format(name))


def _plan(task: Task, errors: ErrorModel, draws: _Draws) -> JsonObject:
    """The plan of the task's flow, with steps left out, tools invented and arguments mistaken as the profile says."""
    plan = copy_json(task.plan) or _plan_of_reference(task)
    kept = [step for step in plan["steps"] if not draws.hit(f"skip {step['id']}", errors.skip_check)]
    if len(kept) < len(plan["steps"]):
        names = {str(step["id"]) for step in kept}
        for step in kept:
            step["depends_on"] = [name for name in step.get("depends_on", ()) if str(name) in names]
    if kept and draws.hit("hallucinated_tool", errors.hallucinated_tool):
        kept[-1]["tool"] = f"{kept[-1].get('tool')}_details"
    if kept and draws.hit("wrong_argument", errors.wrong_argument):
        kept[-1]["arguments"] = _with_wrong_argument(kept[-1].get("arguments", {}))
    return {**plan, "steps": kept}


def _plan_of_reference(task: Task) -> JsonObject:
    """The reference path as a plan: each step after the one before it."""
    steps: list[JsonObject] = []
    for step in task.reference:
        before = [steps[-1]["id"]] if steps else []
        steps.append({"id": step.id, "tool": step.tool, "arguments": dict(step.arguments), "depends_on": before})
    return {"steps": steps}


def _next_step(request: ModelRequest, task: Task, errors: ErrorModel, draws: _Draws) -> tuple[str, JsonObject] | None:
    """The first reference step that is neither executed, nor left out, nor impossible; None when there is none left."""
    steps = request.context.steps
    outputs: dict[str, Any] = {}
    unmatched = list(range(len(steps)))
    for step in task.reference:
        try:
            arguments = resolve_references(step.arguments, outputs)
        except (KeyError, IndexError, TypeError):
            continue
        done = next((i for i in unmatched if steps[i][0] == step.tool and steps[i][1] == arguments), None)
        if done is not None:
            unmatched.remove(done)
            if steps[done][2].success:
                outputs[step.id] = steps[done][2].data
        elif not _is_left_out(step, task, errors, draws) and not _is_refused(step, request):
            return step.tool, arguments
    return None


def _by_handle(arguments: JsonObject, context: RequestContext) -> JsonObject:
    """The arguments with the handle of every large result in place of its data, as a model would write them."""
    by_data = {id(data): handle for handle, data in context.handles.items()}
    return {name: by_data.get(id(value), value) for name, value in arguments.items()}


def _is_left_out(step: ReferenceStep, task: Task, errors: ErrorModel, draws: _Draws) -> bool:
    if not draws.hit("skip_check", errors.skip_check, subject=step.id):
        return False
    return not any(f"steps.{step.id}." in dumps(other.arguments) for other in task.reference)


def _is_refused(step: ReferenceStep, request: ModelRequest) -> bool:
    """Was the step's tool refused for want of an approval? Asking again would bring the same refusal."""
    tool = next((tool for tool in request.tools if tool.name == step.tool), None)
    if tool is None or tool.permission == "auto":
        return False
    contents = (str(message.get("content")) for message in request.messages)
    return any("not_approved" in content and step.tool in content for content in contents)


def _with_wrong_argument(arguments: JsonObject) -> JsonObject:
    """The arguments with another value for the first: text gets a digit more, anything else becomes that text."""
    if not arguments:
        return {"id": "0"}
    name, value = next(iter(arguments.items()))
    return {**arguments, name: f"{value}0" if isinstance(value, str | int) else "0"}


def _answer(task: Task, context: RequestContext, errors: ErrorModel, draws: _Draws) -> Answer:
    findings = []
    for criterion in task.criteria:
        status, evidence = _observed(task, criterion, context.steps)
        if status == "not_evaluated":
            if draws.hit("claim_unseen", errors.claim_unseen, subject=criterion.key):
                status = "passed"
        elif draws.hit("misread_verdict", errors.misread_verdict, subject=criterion.key):
            status = "failed" if status == "passed" else "passed"
        findings.append(Finding(criterion.name, status, criterion.subject, evidence))
    verdict = verdict_of([finding.status for finding in findings])
    return Answer(tuple(findings), verdict, _WORDS[context.language][verdict])


def _observed(task: Task, criterion: Criterion, steps: Steps) -> tuple[str, str]:
    """The status that the results show for a criterion, the latest counting, and the evidence for it."""
    key = criterion.key
    members = task.members.get(key)
    whole: _Result | None = None
    shown: dict[str, _Result] = {}
    for tool, _, result in steps:
        if key in result.visible:
            whole = tool, result
        if result.check == criterion.name and result.passed is not None:
            shown[result.subject or ""] = tool, result
    if whole is not None:
        return whole[1].visible[key], _quote(whole)
    if members == () and all(_was_made(required, steps) for required in task.required_evidence):
        return "passed", _last_quote(steps)
    subjects = members or ((criterion.subject,) if criterion.subject else tuple(shown))
    failing = [subject for subject in subjects if subject in shown and not shown[subject][1].passed]
    if failing:
        quotes = "; ".join(_quote(shown[subject]) for subject in failing)
        return "failed", f"{', '.join(failing)}: {quotes}" if members else quotes
    if subjects and all(subject in shown for subject in subjects):
        return "passed", "; ".join(_quote(shown[subject]) for subject in subjects)
    return "not_evaluated", _last_quote([step for step in steps if not step[2].success] or steps)


def _was_made(required: RequiredCall, steps: Steps) -> bool:
    return any(
        tool == required.tool
        and result.success == required.success
        and required.error_kind in (None, result.error_kind)
        and all(arguments.get(name) == value for name, value in required.arguments.items())
        for tool, arguments, result in steps
    )


def _quote(found: _Result) -> str:
    """A result in a few words, as evidence."""
    tool, result = found
    parts = [f"{tool} {result.subject}" if result.subject else tool]
    if result.passed is not None:
        parts.append("passed=true" if result.passed else "passed=false")
    if result.error_kind is not None:
        parts.append(result.error_kind)
    if result.message:
        parts.append(result.message)
    return ", ".join(parts)


def _last_quote(steps: Sequence[tuple[str, JsonObject, ToolResult]]) -> str:
    return _quote((steps[-1][0], steps[-1][2])) if steps else ""


def _malformed(reply: Reply, request: ModelRequest, draws: _Draws) -> Reply:
    """The reply as it cannot be read: cut off inside its JSON, or an announcement in place of a call."""
    is_cut = draws.uniform("malformed_kind") < 0.5
    announcement = _WORDS[request.context.language]["announcement"]
    if request.format.native_tools:
        if is_cut:
            return Reply(text=reply.text, finish_reason="length", problem="truncated")
        written = "\n".join(dumps({"name": call.name, "arguments": call.arguments}) for call in reply.tool_calls)
        return Reply(text=written or announcement, finish_reason="stop", problem="call_in_text")
    brace = reply.text.find("{")
    if not is_cut or brace == -1:
        return Reply(text=announcement, finish_reason="stop")
    return Reply(text=reply.text[: brace + 1 + (len(reply.text) - brace - 2) // 2], finish_reason="stop")


_text_tokens = functools.lru_cache(maxsize=512)(estimate_tokens)
"""Every request repeats the history, so the same texts are counted again and again."""


def _message_tokens(message: Message) -> int:
    content = message.get("content")
    tokens = MESSAGE_TOKENS
    if isinstance(content, str):
        tokens += _text_tokens(content)
    elif content:
        tokens += sum(_text_tokens(part["text"]) for part in content if "text" in part)
    for call in message.get("tool_calls") or ():
        tokens += _text_tokens(call["function"]["name"]) + _text_tokens(call["function"]["arguments"])
    return tokens


def _output_tokens(reply: Reply) -> int:
    calls = sum(estimate_tokens(call.name) + _json_tokens(call.arguments) for call in reply.tool_calls)
    return estimate_tokens(reply.text) + calls


def _json_tokens(value: Any) -> int:
    return estimate_tokens(json.dumps(value, ensure_ascii=False))


_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "next": "Next I call {}.",
        "done": "Everything that can be checked has been checked.",
        "announcement": "I will check this next.",
        "passed": "All criteria passed.",
        "failed": "At least one criterion failed.",
        "incomplete": "Not every criterion could be evaluated.",
    },
    "zh": {
        "next": "下一步调用 {}。",
        "done": "能检查的都已检查。",
        "announcement": "接下来我会进行检查。",
        "passed": "所有检查项均通过。",
        "failed": "至少有一个检查项未通过。",
        "incomplete": "有检查项无法评估。",
    },
}
