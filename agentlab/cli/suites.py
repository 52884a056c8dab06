"""`agentlab init suite` and `agentlab check suite`: a suite of the user's own, begun and checked."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

init_app = typer.Typer(no_args_is_help=True)
check_app = typer.Typer(no_args_is_help=True)


# Without a callback, typer would drop the name of a group's only command.
@init_app.callback()
def _init() -> None:
    """Write something to start from."""


@check_app.callback()
def _check() -> None:
    """Check something before it is used."""


@init_app.command("suite")
def init_suite(
    folder: Annotated[Path, typer.Argument(help="new or empty folder; the suite is named after it")],
) -> None:
    """Write a small working suite: tools, environment, three tasks, an experiment, a README."""
    from agentlab.environments.starter import write_suite

    for path in write_suite(folder):
        typer.echo(str(path))
    typer.echo(f"Next: agentlab check suite {shlex.quote(str(folder))}")


@check_app.command("suite")
def check_suite(
    suite: Annotated[str, typer.Argument(help="folder, importable module, or name of a suite")],
) -> None:
    """Say what is wrong with a suite, where, and how to mend it; exit code 1 when anything is."""
    from agentlab.environments.suite_check import check_suite as check

    result = check(suite)
    typer.echo(result.text())
    if result.problems:
        raise typer.Exit(1)
