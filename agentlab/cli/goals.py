"""`agentlab do` and `agentlab resume`: one goal, carried out with a plan that survives a kill."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from agentlab.cli.name_values import environment_settings, strategy_parameters

EXIT_NO_ANSWER = 1
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
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="parameter of plan_execute, NAME=VALUE (max_replans=2)")
    ] = None,
    environment: Annotated[list[str] | None, typer.Option(help="setting of the environment, NAME=VALUE")] = None,
) -> None:
    """Plan a goal and carry it out; after a kill, `agentlab resume JOURNAL` continues."""
    from agentlab.runner.blocking import run_blocking
    from agentlab.runner.do_goal import do_goal
    from agentlab.runner.person import Person

    work = do_goal(
        goal,
        journal,
        suite=suite,
        model=model,
        language=lang,
        parameters={"parallelism": parallelism, "policy": policy, **strategy_parameters(settings or ())},
        approvals=cast(Any, approvals),
        environment=environment_settings(environment or ()),
        person=Person(approve=_ask_approval),
        on_event=_shown(lang),
    )
    _end(run_blocking(work), journal)


def resume(
    journal: Annotated[Path, typer.Argument(help="file of `agentlab do`")],
    happened: Annotated[list[str] | None, typer.Option(help="step whose effect is known to have happened")] = None,
    did_not_happen: Annotated[list[str] | None, typer.Option(help="step that is known not to have happened")] = None,
    approve: Annotated[list[str] | None, typer.Option(help="step to approve, with the arguments it asked for")] = None,
    refuse: Annotated[list[str] | None, typer.Option(help="step that is not approved")] = None,
    restart: Annotated[
        list[str] | None, typer.Option(help="step that the plan stopped at: run from it on again")
    ] = None,
    end: Annotated[list[str] | None, typer.Option(help="step that the plan stopped at: leave it at that")] = None,
) -> None:
    """Continue a goal from where it stood; steps that may have taken effect are looked up or asked about."""
    from agentlab.planning.journal import last_journal
    from agentlab.runner.blocking import run_blocking
    from agentlab.runner.person import Person
    from agentlab.runner.resume_goal import resume as resume_goal

    known = _answers(happened, did_not_happen)
    approved = _answers(approve, refuse)
    decided = _answers(restart, end)
    content = last_journal(journal)
    _refuse_unknown_steps([*known, *approved, *decided], content)

    def has_happened(step: Any, arguments: Any) -> bool | None:
        return known[step.id] if step.id in known else _ask(step, arguments)

    def may_be_made(step_id: str | None, tool: Any, arguments: Any) -> bool | None:
        return approved[step_id] if step_id in approved else _ask_approval(step_id, tool, arguments)

    def becomes(step_id: str, reason: str) -> Any:
        again = decided[step_id] if step_id in decided else _ask_escalated(step_id, reason)
        return None if again is None else "restart" if again else "end"

    person = Person(approve=may_be_made, happened=has_happened, escalated=becomes)
    show = _shown(content.goal.get("language", "en"))
    _end(run_blocking(resume_goal(journal, person=person, on_event=show)), journal)


def _answers(yes: list[str] | None, no: list[str] | None) -> dict[str | None, bool]:
    return {**dict.fromkeys(yes or (), True), **dict.fromkeys(no or (), False)}


def _refuse_unknown_steps(named: Sequence[str | None], content: Any) -> None:
    from agentlab.errors import unknown_name

    steps = [step.id for step in content.state.graph.steps] if content.state is not None else []
    for name in named:
        if name not in steps:
            raise unknown_name("step of the plan", str(name), steps)


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


def _ask_escalated(step_id: str, reason: str) -> bool | None:
    return _answer(
        f"The plan stopped at step {step_id}: {reason}",
        "Run from this step on once more? y = yes, n = no, end here, anything else = decide later",
    )


def _answer(about: str, question: str) -> bool | None:
    """Ask at a terminal; elsewhere nobody can answer, and nothing waits."""
    if not sys.stdin.isatty():
        return None
    typer.echo(about)
    answer = typer.prompt(question, default="", show_default=False)
    return {"y": True, "n": False}.get(str(answer).strip().lower()[:1])


def _shown(language: str) -> Callable[[Any], None]:
    from agentlab.report.trace_text import trace_lines

    def show(event: Any) -> None:
        for line in trace_lines(event, language=language):
            typer.echo(line)

    return show


def _end(done: Any, journal: Path) -> None:
    """Say how it ended; leave with 3 when a person is needed, with 1 when there is no answer."""
    waiting = done.recovery
    if waiting is not None:
        typer.echo(f"{done.plan_status or waiting.kind}: {waiting.reason}")
        commands = [
            *(f"--approve {step}   (or --refuse {step})" for step in waiting.approvals),
            *(f"--restart {step}   (or --end {step})" for step in waiting.escalated),
            *(f"--happened {step}   (or --did-not-happen {step})" for step in (*waiting.ask, *waiting.open_undos)),
        ]
        for command in commands:
            typer.echo(f"  agentlab resume {journal} {command}")
        if commands:
            raise typer.Exit(EXIT_NEEDS_A_PERSON)
        return
    answer, score, reason = done.result.answer, done.result.score, done.result.end_reason
    if answer is not None:
        typer.echo("\n" + answer.text)
    judged = f"verdict {score.verdict or '-'}   success {score.success}   outcome {score.outcome}"
    plan = f"plan {done.plan_status}   " if done.plan_status else ""
    typer.echo(f"\n{plan}ended: {reason}   {judged if done.has_truth else 'no truth known'}")
    if done.result.error:
        typer.echo(done.result.error)
    if reason not in ("answered", "gave_up"):
        raise typer.Exit(EXIT_NO_ANSWER)
