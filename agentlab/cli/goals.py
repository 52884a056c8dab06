"""`agentlab do` and `agentlab resume`: one goal, carried out with a plan that survives a kill."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

EXIT_NEEDS_A_PERSON = 3


def do(
    goal: Annotated[str, typer.Argument(help="task id, instruction, subject such as ORDER1002, or free text")],
    journal: Annotated[Path, typer.Option(help="new file that every change is stored in (SQLite)")],
    suite: Annotated[str, typer.Option(help="where the tools come from")] = "sales",
    model: Annotated[str, typer.Option(help="provider:name of the planner")] = "simulated:perfect",
    lang: Annotated[str, typer.Option(help="zh or en")] = "en",
    parallelism: Annotated[int, typer.Option(min=1, help="steps in flight at once")] = 1,
    policy: Annotated[str, typer.Option(help="what a failed step leads to; suite: what its suite says")] = "suite",
    approvals: Annotated[str, typer.Option(help="tools that need an approval: ask, allow or deny")] = "ask",
    environment: Annotated[list[str] | None, typer.Option(help="setting of the environment, NAME=VALUE")] = None,
) -> None:
    """Plan a goal and carry it out; after a kill, `agentlab resume JOURNAL` continues."""
    from agentlab.runner.blocking import run_blocking
    from agentlab.runner.do_goal import do_goal

    work = do_goal(
        goal,
        journal,
        suite=suite,
        model=model,
        language=lang,
        parameters={"parallelism": parallelism, "policy": policy},
        approvals=cast(Any, approvals),
        environment=_settings(environment or ()),
        approve=_ask_approval,
        on_event=_show,
    )
    _end(run_blocking(work), journal)


def resume(
    journal: Annotated[Path, typer.Argument(help="file of `agentlab do`")],
    happened: Annotated[list[str] | None, typer.Option(help="step whose effect is known to have happened")] = None,
    did_not_happen: Annotated[list[str] | None, typer.Option(help="step that is known not to have happened")] = None,
    approve: Annotated[list[str] | None, typer.Option(help="step to approve, with the arguments it asked for")] = None,
    refuse: Annotated[list[str] | None, typer.Option(help="step that is not approved")] = None,
) -> None:
    """Continue a goal from where it stood; steps that may have taken effect are looked up or asked about."""
    from agentlab.runner.blocking import run_blocking
    from agentlab.runner.do_goal import resume as resume_goal

    known = {**dict.fromkeys(happened or (), True), **dict.fromkeys(did_not_happen or (), False)}

    def decide(step: Any, arguments: Any) -> bool | None:
        return known[step.id] if step.id in known else _ask(step, arguments)

    answers = {**dict.fromkeys(approve or (), True), **dict.fromkeys(refuse or (), False)}

    def approved(step_id: str | None, tool: Any, arguments: Any) -> bool | None:
        return answers[step_id] if step_id in answers else _ask_approval(step_id, tool, arguments)

    _end(run_blocking(resume_goal(journal, decide=decide, approve=approved, on_event=_show)), journal)


def _ask(step: Any, arguments: Any) -> bool | None:
    return _answer(
        f"Step {step.id} was interrupted: {step.tool}({json.dumps(arguments, ensure_ascii=False)[:300]})",
        "Has it taken effect? y = yes, n = no, run it again, anything else = decide later",
    )


def _ask_approval(step_id: str | None, tool: Any, arguments: Any) -> bool | None:
    who = f"Step {step_id}" if step_id else "The model"
    call = f"{tool.name}({json.dumps(arguments, ensure_ascii=False)[:1000]})"
    return _answer(
        f"{who} wants to call {call}, which is {tool.effect}.",
        "Approve this call? y = yes, once, n = no, anything else = decide later",
    )


def _answer(about: str, question: str) -> bool | None:
    """Ask at a terminal; elsewhere nobody can answer, and nothing waits."""
    if not sys.stdin.isatty():
        return None
    typer.echo(about)
    answer = typer.prompt(question, default="", show_default=False)
    return {"y": True, "n": False}.get(str(answer).strip().lower()[:1])


def _settings(given: Sequence[str]) -> dict[str, str]:
    from agentlab.errors import ConfigError

    pairs = [setting.partition("=") for setting in given]
    if wrong := [name for name, separator, _ in pairs if not separator]:
        raise ConfigError(f"--environment {wrong[0]} has no value. Write --environment NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _show(event: Any) -> None:
    from agentlab.report.trace_text import trace_lines

    for line in trace_lines(event):
        typer.echo(line)


def _end(done: Any, journal: Path) -> None:
    recovery = done.recovery
    if done.result is None:
        typer.echo(f"{recovery.kind}: {recovery.reason}")
        if recovery.kind == "completed":
            return
        for step_id in recovery.approvals:
            typer.echo(f"  agentlab resume {journal} --approve {step_id}   (or --refuse {step_id})")
        for step_id in (*recovery.ask, *recovery.open_undos):
            typer.echo(f"  agentlab resume {journal} --happened {step_id}   (or --did-not-happen {step_id})")
        raise typer.Exit(EXIT_NEEDS_A_PERSON)
    answer = done.result.answer
    if answer is not None:
        typer.echo("\n" + answer.text)
    score = done.result.score
    judged = f"verdict {score.verdict or '-'}   success {score.success}   outcome {score.outcome}"
    typer.echo(f"\nended: {done.result.end_reason}   {judged if done.has_truth else 'no truth known'}")
    if done.result.error:
        typer.echo(done.result.error)
