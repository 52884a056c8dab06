"""A trace as lines of text, for the terminal and for notebooks."""

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.granularity import hints
from agentlab.planning.plan import PlanGraph
from agentlab.records import Event, JsonObject

LINE_LIMIT_CHARS = 1_000
_WISHES = ("max_retries", "on_error", "on_not_passed", "back_to")
_WORDS = {
    "en": {
        "hint": "hint",
        "and": ", ",
        "after": "after {steps}",
        "weak": "with {steps} if there",
        "only_if_passed": "only if {steps} passed",
        "only_if_not_passed": "only if {steps} did not pass",
        "over": "for each of {over}",
        "progress": ", {percent} %",
        "activity": ", calls {activity}",
        "recalled": "done before the stop",
        "report": "report",
    },
    "zh": {
        "hint": "提示",
        "and": "、",
        "after": "在 {steps} 之后",
        "weak": "有 {steps} 的输出就用",
        "only_if_passed": "仅当 {steps} 通过",
        "only_if_not_passed": "仅当 {steps} 未通过",
        "over": "对 {over} 的每一项",
        "progress": "，{percent} %",
        "activity": "，调用 {activity}",
        "recalled": "中断前已完成",
        "report": "报告",
    },
}
_Words = dict[str, str]


def trace_lines(event: Event, limit_chars: int = LINE_LIMIT_CHARS, language: str = "en") -> list[str]:
    """Return an event as indented lines; long texts are cut in the middle and say so, but for reports.

    Args:
        event: of a trace.
        limit_chars: longest text.
        language: zh or en, of what is said about plans, their steps, and recalled calls; other words are English.
    """
    head = f"[{event.t_s:8.3f} s] {event.actor}"
    if (lines := _LINES.get(event.kind)) is not None:
        return lines(head, event.data, limit_chars, _WORDS["zh" if language == "zh" else "en"])
    return [f"{head}: {event.kind} {cut_middle(dumps(event.data), limit_chars)}"]


def _run_start(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    tools = ", ".join(data["tools"])
    return [f"{head}: start, {data['strategy']['name']} with {data['model']['name']}; tools {tools}"]


def _run_end(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    return [f"{head}: end, {data['end_reason']}{': ' + data['message'] if data.get('message') else ''}"]


def _tool_call(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    observation = f"    {cut_middle(data['observation'], limit_chars)}"
    if not data["executed"]:
        return [f"{head} -> {_call(data)}  (not executed)", observation]
    if data.get("tries") == 0:
        # Of an earlier attempt, and evidence in this one (`Session.recall`).
        return [f"{head}: {words['recalled']}: {_call(data)}", observation]
    return [f"{head} -> {_call(data)}", observation]


def _approval(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    decision = {True: "approved", False: "refused", None: "undecided"}[data["allowed"]]
    return [f"{head}: {cut_middle(_call(data), limit_chars)} {decision} by {data.get('by', 'settings')}"]


def _plan(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    steps = [f"    {_plan_line(step, limit_chars, words)}" for step in data["plan"]["steps"]]
    # From the plan alone; what depends on the effects of its tools is not in the trace.
    found = hints(PlanGraph.from_json(data["plan"]))
    remarks = [hint.message_zh if words is _WORDS["zh"] else hint.message for hint in found]
    return [f"{head}: plan", *steps, *(f"    {words['hint']}: {remark}" for remark in remarks)]


def _plan_line(step: JsonObject, limit_chars: int, words: _Words) -> str:
    conditions = {name: step.get(name, []) for name in ("only_if_passed", "only_if_not_passed")}
    named = {id for ids in conditions.values() for id in ids}
    waits = {
        "after": [id for id in step.get("depends_on", ()) if id not in named],
        "weak": step.get("weak_depends_on", []),
        **conditions,
    }
    parts = [f"{step['id']}: {step.get('tool') or step.get('kind')}", step.get("description", "")]
    if "over" in step:
        over = step["over"]
        is_reference = isinstance(over, dict) and list(over) == ["$ref"]
        parts.append(words["over"].format(over=over["$ref"] if is_reference else cut_middle(dumps(over), limit_chars)))
    parts += [words[form].format(steps=words["and"].join(ids)) for form, ids in waits.items() if ids]
    wishes = [
        f"{name} {step[name]}" for name in ("max_retries", "on_error", "on_not_passed", "back_to") if name in step
    ]
    wishes += ["restart"] if step.get("restart") else []
    parts += [f"[{', '.join(wishes)}]"] if wishes else []
    return "  ".join(part for part in parts if part)


def _step(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    why = data.get("error") or {}
    cause = f"because of {data['cause']}" if data.get("cause") else ""
    reason = data.get("reason") or data.get("stopped") or why.get("message") or cause or _of_plan(data)
    what = f"step {data['step']}" if data["step"] is not None else "plan"
    moved = f"{data['before']} -> {data['after']}" if data["before"] != data["after"] else data["after"]
    report = _progress(data, words) if moved == "running" else ""
    return [f"{head}: {what} {moved}{report}{': ' + reason if reason else ''}"]


def _progress(data: JsonObject, words: _Words) -> str:
    """What a running step reports: how far it is, and what it does."""
    progress = data.get("progress")
    share = "" if progress is None else words["progress"].format(percent=round(100 * progress))
    return share + (words["activity"].format(activity=data["activity"]) if data.get("activity") else "")


def _of_plan(data: JsonObject) -> str:
    """What a change says about undoing, or about what is to be done with the whole plan; empty when nothing."""
    if data.get("undos"):
        return f"undo with {data['undos'][-1]['tool']} {data['undos'][-1].get('state', 'started')}"
    if "rollback" in data:
        begun = data["rollback"]
        return f"rolling back because of step {begun['failed']}" if begun else "rolled back"
    if "decisions" in data:
        left = [f"{decision['kind']} because of step {decision['step']}" for decision in data["decisions"]]
        return f"still to do: {', '.join(left) or 'nothing'}"
    return ""


def _decision(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    if data.get("message") != "recovery_command":
        return [f"{head}: decision {cut_middle(dumps(data), limit_chars)}"]
    payload = data["payload"]
    wait = f", in {payload['delay_s']:.1f} s" if "delay_s" in payload else ""
    return [f"{head}: step {data['step']}: {payload['command']}{wait} ({payload['reason']})"]


def _note(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    if not isinstance(data.get("report"), str):
        return [f"{head}: note {cut_middle(dumps(data), limit_chars)}"]
    # Whole: of a run that waits for a person this is all there is to decide by.
    others = {name: value for name, value in data.items() if name != "report"}
    about = f" {cut_middle(dumps(others), limit_chars)}" if others else ""
    return [f"{head}: {words['report']}{about}", *(f"    {line}" for line in data["report"].splitlines())]


def _call(data: JsonObject) -> str:
    arguments = data["arguments"] or {}
    return f"{data['tool']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def _model_call(head: str, data: JsonObject, limit_chars: int, words: _Words) -> list[str]:
    lines = [
        f"    {message['role']}> {cut_middle(_text_of(message), limit_chars)}"
        for message in data["messages"]
        if message["role"] not in ("assistant", "tool")  # both have lines of their own: the reply and the tool call
    ]
    usage = data.get("usage") or {}
    tokens = (
        f"{usage['input_tokens']}+{usage['output_tokens']} tokens"
        if usage.get("output_tokens") is not None
        else "tokens unknown"
    )
    lines.append(f"{head}: model call, {tokens}{', ' + data['problem'] if data.get('problem') else ''}")
    if data.get("reasoning"):
        lines.append(f"    (reasoning) {cut_middle(data['reasoning'], limit_chars)}")
    if data["text"]:
        lines.append(f"    assistant> {cut_middle(data['text'], limit_chars)}")
    lines += [
        f"    assistant> call {call['name']}({dumps(call.get('arguments'))})" for call in data.get("tool_calls", ())
    ]
    return lines


def _text_of(message: JsonObject) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else dumps(content)


_LINES = {
    "run_start": _run_start,
    "model_call": _model_call,
    "tool_call": _tool_call,
    "approval": _approval,
    "plan": _plan,
    "step": _step,
    "decision": _decision,
    "note": _note,
    "run_end": _run_end,
}
