"""A trace as lines of text, for the terminal and for notebooks."""

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.granularity import hints
from agentlab.planning.plan import PlanGraph
from agentlab.records import Event, JsonObject

LINE_LIMIT_CHARS = 1_000


def trace_lines(event: Event, limit_chars: int = LINE_LIMIT_CHARS) -> list[str]:
    """Return an event as indented lines; long texts are cut in the middle and say so."""
    data = event.data
    head = f"[{event.t_s:8.3f} s] {event.actor}"
    if event.kind == "model_call":
        return _model_call(head, data, limit_chars)
    if event.kind == "tool_call":
        arguments = ", ".join(f"{name}={value!r}" for name, value in data["arguments"].items())
        state = "" if data["executed"] else "  (not executed)"
        return [f"{head} -> {data['tool']}({arguments}){state}", f"    {cut_middle(data['observation'], limit_chars)}"]
    if event.kind == "plan":
        steps = [f"    {_plan_line(step)}" for step in data["plan"]["steps"]]
        # From the plan alone; what depends on the effects of its tools is not in the trace.
        remarks = [f"    hint: {hint.message}" for hint in hints(PlanGraph.from_json(data["plan"]))]
        return [f"{head}: plan", *steps, *remarks]
    if event.kind == "step":
        why = data.get("error") or {}
        reason = (
            data.get("reason") or why.get("message") or (f"because of {data['cause']}" if data.get("cause") else "")
        )
        what = f"step {data['step']}" if data["step"] is not None else "plan"
        return [f"{head}: {what} {data['before']} -> {data['after']}{': ' + reason if reason else ''}"]
    if event.kind == "run_start":
        return [
            f"{head}: start, {data['strategy']['name']} with {data['model']['name']}; tools {', '.join(data['tools'])}"
        ]
    if event.kind == "run_end":
        return [f"{head}: end, {data['end_reason']}{': ' + data['message'] if data.get('message') else ''}"]
    return [f"{head}: {event.kind} {cut_middle(dumps(data), limit_chars)}"]


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
