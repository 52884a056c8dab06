"""The commands. Each is a thin layer over a function that notebooks and scripts can call as well."""

import enum
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agentlab.cli import goals
from agentlab.cli.local import local
from agentlab.cli.name_values import strategy_parameters
from agentlab.cli.serve import serve
from agentlab.cli.suites import check_app, init_app
from agentlab.errors import AgentLabError, ConfigError
from agentlab.secrets import scrub

app = typer.Typer(
    name="agentlab",
    help="Which agent strategy should we use for our test flows, how sure are we, what does it cost?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(init_app, name="init")
app.add_typer(check_app, name="check")
app.add_typer(local)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Language(enum.StrEnum):
    """Languages of texts and labels."""

    zh = "zh"
    en = "en"


class ListKind(enum.StrEnum):
    """What `agentlab list` can show."""

    suites = "suites"
    tasks = "tasks"
    strategies = "strategies"
    models = "models"


def main() -> None:
    """Run the command line; errors of ours are one clear message, never a traceback."""
    try:
        app()
    except AgentLabError as error:
        print(scrub(f"agentlab: {error}"), file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            print(
                "Stopped. What is finished is stored: the same command continues an experiment, "
                "`agentlab resume` a goal.",
                file=sys.stderr,
            )
        raise


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="experiment file (YAML)")],
    model: Annotated[str | None, typer.Option(help="run with this model instead of the declared ones")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="another number of repeats; raising it adds runs")] = None,
    out: Annotated[str | None, typer.Option(help="results folder or database URL [default: results/NAME]")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="runs in flight at once")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be run, run nothing")] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="run those again that ended with an error of agentlab's own")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress display")] = False,
) -> None:
    """Run what is missing of an experiment. The same command continues after any stop."""
    from agentlab.runner.experiment import run_experiment
    from agentlab.runner.spec import load_experiment

    if dry_run:
        from agentlab.runner.dry_run import describe

        experiment = load_experiment(spec).replaced(models=(model,) if model else None, repeats=repeats)
        typer.echo(describe(experiment))
        return
    summary = run_experiment(
        spec, out=out, model=model, repeats=repeats, concurrency=concurrency, retry_errors=retry_errors, is_quiet=quiet
    )
    typer.echo(str(summary))
    typer.echo(f"Results: {summary.store}   Next: agentlab report {shlex.quote(summary.store)}")
    if summary.is_failure:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def status(
    folder: Annotated[str, typer.Argument(help="results folder or database URL")],
    watch: Annotated[
        bool, typer.Option("--watch", help="follow it until no process works on it; stops nothing")
    ] = False,
) -> None:
    """Show how far an experiment is. Counts its runs by state, strategy and end reason."""
    from agentlab.report.follow import follow
    from agentlab.report.status import status_text

    if watch:
        typer.echo(str(follow(folder)))
    typer.echo(status_text(folder))


@app.command()
def report(
    folder: Annotated[str, typer.Argument(help="results folder or database URL")],
    lang: Annotated[Language, typer.Option(help="language of the report")] = Language.en,
    out: Annotated[Path | None, typer.Option(help="file to write [default: FOLDER/report.html]")] = None,
) -> None:
    """Write the team report, one offline HTML file. Prints the decision sentence as well."""
    from agentlab.report.page import write_report

    written = write_report(folder, language=lang.value, out=out)
    typer.echo(written.sentence)
    typer.echo(str(written.path))


@app.command()
def trace(
    folder: Annotated[str, typer.Argument(help="results folder or database URL")],
    run_id: Annotated[str, typer.Argument(help="the run, or the beginning of its id")],
    lang: Annotated[Language, typer.Option(help="language of the run report")] = Language.en,
    events: Annotated[bool, typer.Option("--events", help="print the events as JSON lines instead")] = False,
) -> None:
    """Show one run. Prints every prompt, call and result, and the report that Python writes from them."""
    from agentlab.json_values import dumps
    from agentlab.report.run_report import run_report
    from agentlab.report.trace_text import trace_lines
    from agentlab.store import Store

    store = Store(folder)
    try:
        found = store.trace(run_id)
    finally:
        store.close()
    if events:
        for event in found:
            typer.echo(dumps([event.seq, event.t_s, event.kind, event.actor, event.data]))
        return
    for event in found:
        for line in trace_lines(event, language=lang.value):
            typer.echo(line)
    typer.echo("\n" + run_report(found).text(lang.value))


@app.command(name="try")
def try_(
    task: Annotated[str, typer.Argument(help="task id, instruction, subject such as ORDER1002, or free text")],
    suite: Annotated[str, typer.Option(help="suite of the task: name, folder or module")] = "orders",
    strategy: Annotated[str, typer.Option(help="strategy to run")] = "tool_loop",
    model: Annotated[str, typer.Option(help="provider:name")] = "simulated:perfect",
    lang: Annotated[Language, typer.Option(help="language of instruction and report")] = Language.en,
    max_rounds: Annotated[int | None, typer.Option(min=1, help="model calls at most, of a loop [default: 8]")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="parameter of the strategy, NAME=VALUE (parallelism=3)")
    ] = None,
) -> None:
    """Run one task once and show it live."""
    from agentlab.report.run_report import run_report
    from agentlab.report.trace_text import trace_lines
    from agentlab.runner.blocking import run_blocking
    from agentlab.runner.try_one import try_task

    def show(event: Any) -> None:
        for line in trace_lines(event, language=lang.value):
            typer.echo(line)

    result, has_truth = run_blocking(
        try_task(
            task,
            suite=suite,
            strategy=strategy,
            model=model,
            language=lang.value,
            parameters=_parameters(strategy, max_rounds, strategy_parameters(settings or ())),
            on_event=show,
        )
    )
    typer.echo("\n" + run_report(result.events).text(lang.value) + "\n")
    if has_truth:
        score = result.score
        success = "-" if score.success is None else score.success
        typer.echo(
            f"task {result.task.id}   verdict {score.verdict or '-'}   success {success}   outcome {score.outcome}"
        )
    else:
        typer.echo("no truth known: the answer cannot be judged")
    if result.end_reason == "infrastructure":
        raise ConfigError(result.error or "the model could not be reached")
    if result.end_reason == "error":
        typer.echo(f"agentlab: {result.error}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _parameters(strategy: str, max_rounds: int | None, given: dict[str, Any]) -> dict[str, Any]:
    from agentlab.strategies.base import parameters_of

    if max_rounds is None:
        return given
    valid = parameters_of(strategy)
    if "max_rounds" not in valid:
        raise ConfigError(f"--max-rounds does not apply to {strategy}. --set takes: {', '.join(valid)}.")
    if "max_rounds" in given:
        raise ConfigError("Give either --max-rounds or --set max_rounds, not both.")
    return {**given, "max_rounds": max_rounds}


app.command()(goals.do)
app.command()(goals.resume)
app.command()(serve)


@app.command()
def notebook(
    path: Annotated[Path, typer.Argument(help="notebook to execute")],
    out: Annotated[Path, typer.Option(help="executed copy to write")],
    parameter: Annotated[
        list[str] | None, typer.Option("-p", "--parameter", help="name=value; may be given several times")
    ] = None,
) -> None:
    """Execute a notebook with parameters. An unknown parameter is an error."""
    from agentlab.notebooks import execute_notebook, parse_parameters

    execute_notebook(path, out, parse_parameters(parameter or []))
    typer.echo(str(out))


@app.command()
def notebooks(
    paths: Annotated[list[Path], typer.Argument(help="notebooks to execute with their own parameters")],
    out: Annotated[Path, typer.Option(help="folder of the executed copies")],
) -> None:
    """Execute several notebooks. A failed one is named at the end and does not stop the others."""
    from agentlab.notebooks import execute_notebooks

    done = execute_notebooks(paths, out)
    for path, failure in done.items():
        typer.echo(f"{'failed' if failure else 'done':<8}{path}")
    failures = [str(failure) for failure in done.values() if failure is not None]
    if failures:
        typer.echo("\n".join(failures), err=True)
        raise typer.Exit(EXIT_FAILED)


@app.command(name="list")
def list_(
    kind: Annotated[ListKind, typer.Argument(help="what to list")],
    suite: Annotated[str | None, typer.Option(help="only this suite: name, folder or module")] = None,
    lang: Annotated[Language, typer.Option(help="language of titles and instructions")] = Language.en,
) -> None:
    """List what can be named in an experiment."""
    from agentlab.cli.lists import listing

    typer.echo(listing(kind.value, suite, lang.value))


@app.command()
def export(
    folder: Annotated[str, typer.Argument(help="results folder or database URL")],
    to: Annotated[str, typer.Option(help="format; parquet is the one that keeps all types")] = "parquet",
    out: Annotated[Path | None, typer.Option(help="folder to write [default: FOLDER/parquet]")] = None,
) -> None:
    """Export runs, steps and calls for sharing."""
    from agentlab.analysis.frames import export_parquet
    from agentlab.errors import unknown_name

    if to != "parquet":
        raise unknown_name("export format", to, ["parquet"])
    if out is None and "://" in folder:
        raise ConfigError("Say where to write with --out: the results are in a database, not in a folder.")
    for path in export_parquet(folder, out or Path(folder) / "parquet"):
        typer.echo(str(path))
