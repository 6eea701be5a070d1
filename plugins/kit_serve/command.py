"""The command `kit serve`: loads a run, listens on a socket and serves until it is stopped."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from kit import KitError
from kit.cli.console import errors, screen

if TYPE_CHECKING:
    from kit import Kit


def serve(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: pronounce, pronounce/3 or its folder.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    search: Annotated[
        str | None,
        typer.Option(help="The search of every answer, such as 'beam size=5'; left out, that of the recipe."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device of the model; left out, a GPU if there is one.")
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option("--compile", help="Compile the steps: single texts are faster, the first takes some seconds."),
    ] = False,
    compiled_batches: Annotated[
        bool, typer.Option("--compile-batches", help="Those of large batches too: a little faster.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="The largest batch of texts that the model is given.")] = 32,
    queue: Annotated[
        int, typer.Option(min=1, help="The most texts that wait; beyond that, requests are refused as busy.")
    ] = 1024,
    example: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A text that the page offers to try; left out, some held-out ones."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that requests may call the server by; may be given again."),
    ] = None,
) -> None:
    """Answer over HTTP, and show a page where a person types and sees the answer."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise KitError(f"the server needs {' and '.join(missing)}, not installed here: pip install 'kitformer[serve]'")

    from kit import DifferentRunWarning, load
    from kit_serve.application import application
    from kit_serve.request import Limits
    from kit_serve.served_run import RunDescription, ServedRun, attention_renderer
    from kit_serve.server import listen, run_server

    kit: Kit = context.obj
    listener, address = listen(host, port)
    with listener:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DifferentRunWarning)  # the differences are printed below
            predictor = load(run, kit, device=device, compiled="batches" if compiled_batches else compiled)
        for difference in predictor.run.differences:
            errors.print(f"[yellow]warning:[/] not as when the run was made: {escape(difference)}", highlight=False)
        description = RunDescription.of(predictor, example or ())
        if compiled or compiled_batches:  # so that no client waits for the compiler
            some = list(description.examples[:1]) or ["a"]
            predictor.predict(some, search=search)
            if compiled_batches:
                predictor.predict(some * batch, search=search)
        served_run = ServedRun(predictor, search)
        limits = Limits(batch=batch, queue=queue, outputs=served_run.largest_nbest(Limits.nbest))
        if not address.loopback:
            errors.print(
                f"[yellow]warning:[/] every machine that reaches {escape(address.host)} can use this; "
                "it asks for no password",
                highlight=False,
            )

        def ready() -> None:
            screen().print(
                f"{escape(description.run)} ({description.task}, {description.parameters:,} parameters) "
                f"answers at {address.url}\n    stop it with Ctrl-C",
                highlight=False,
                soft_wrap=True,
            )

        app = application(
            served_run, description, limits, address.names(allow_host or ()), attention_renderer(predictor.run)
        )
        run_server(app, listener, ready)
    screen().print("stopped; every request that was accepted is answered", highlight=False)
