"""`agentlab serve`: goals over HTTP."""

from typing import Annotated

import typer


def serve(
    suite: Annotated[str, typer.Option(help="suite whose tools a plan can use: name, folder or module")] = "orders",
    model: Annotated[str, typer.Option(help="provider:name")] = "simulated:perfect",
    host: Annotated[str, typer.Option(help="address to listen on; any but loopback needs a token")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port; 0 takes a free one")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="AGENTLAB_TOKEN", help="what requests must show; better set than typed: others see it"),
    ] = None,
) -> None:
    """Serve goals over HTTP. POST /api/task/execute plans a goal, carries the plan out, answers as JSON."""
    from agentlab.serve import serve as serve_until_stopped

    def show(address: str) -> None:
        typer.echo(f"Serving {suite} with {model} on {address} (stop with Ctrl-C)")

    serve_until_stopped(suite, model, host=host, port=port, token=token, on_ready=show)
