"""A trace as lines of text, for the terminal and for notebooks."""

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.granularity import hints
from agentlab.planning.plan import PlanGraph
from agentlab.records import Event, JsonObject

LINE_LIMIT_CHARS = 1_000


def trace_lines(event: Event, limit_chars: int = LINE_LIMIT_CHARS) -> list[str]:
    """Return an event as indented lines; long texts are cut in the middle and say so."""
    head = f"[{event.t_s:8.3f} s] {event.actor}"
    lines = _LINES.get(event.kind)
    if lines is not None:
        return lines(head, event.data, limit_chars)
    return [f"{head}: {event.kind} {cut_middle(dumps(event.data), limit_chars)}"]


def _run_start(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    tools = ", ".join(data["tools"])
    return [f"{head}: start, {data['strategy']['name']} with {data['model']['name']}; tools {tools}"]


def _run_end(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    return [f"{head}: end, {data['end_reason']}{': ' + data['message'] if data.get('message') else ''}"]


def _tool_call(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    state = "" if data["executed"] else "  (not executed)"
    return [f"{head} -> {_call(data)}{state}", f"    {cut_middle(data['observation'], limit_chars)}"]


def _approval(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    decision = {True: "approved", False: "refused", None: "undecided"}[data["allowed"]]
    return [f"{head}: {cut_middle(_call(data), limit_chars)} {decision} by {data.get('by', 'settings')}"]


def _plan(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    steps = [f"    {_plan_line(step)}" for step in data["plan"]["steps"]]
    # From the plan alone; what depends on the effects of its tools is not in the trace.
    remarks = [f"    hint: {hint.message}" for hint in hints(PlanGraph.from_json(data["plan"]))]
    return [f"{head}: plan", *steps, *remarks]


def _step(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    why = data.get("error") or {}
    cause = f"because of {data['cause']}" if data.get("cause") else ""
    reason = data.get("reason") or data.get("stopped") or why.get("message") or cause or _undo(data)
    what = f"step {data['step']}" if data["step"] is not None else "plan"
    moved = f"{data['before']} -> {data['after']}" if data["before"] != data["after"] else data["after"]
    return [f"{head}: {what} {moved}{': ' + reason if reason else ''}"]


def _undo(data: JsonObject) -> str:
    """What a change says about undoing; empty when nothing."""
    if data.get("undos"):
        return f"undo with {data['undos'][-1]['tool']} {data['undos'][-1].get('state', 'started')}"
    if "rollback" not in data:
        return ""
    return f"rolling back because of step {data['rollback']['failed']}" if data["rollback"] else "rolled back"


def _decision(head: str, data: JsonObject, limit_chars: int) -> list[str]:
    if data.get("message") != "recovery_command":
        return [f"{head}: decision {cut_middle(dumps(data), limit_chars)}"]
    payload = data["payload"]
    wait = f", in {payload['delay_s']:.1f} s" if "delay_s" in payload else ""
    return [f"{head}: step {data['step']}: {payload['command']}{wait} ({payload['reason']})"]


def _call(data: JsonObject) -> str:
    arguments = data["arguments"] or {}
    return f"{data['tool']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def _model_call(head: str, data: JsonObject, limit_chars: int) -> list[str]:
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


def _plan_line(step: JsonObject) -> str:
    before = f"  after {', '.join(step['depends_on'])}" if step.get("depends_on") else ""
    return f"{step['id']}: {step.get('tool') or step.get('kind')}  {step.get('description', '')}{before}"


_LINES = {
    "run_start": _run_start,
    "model_call": _model_call,
    "tool_call": _tool_call,
    "approval": _approval,
    "plan": _plan,
    "step": _step,
    "decision": _decision,
    "run_end": _run_end,
}
