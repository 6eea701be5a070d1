"""`kit serve`: a server for a run, with a page to try it on."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from kit.cli.console import errors, screen
from kit.cli.opening import Compiled, CompiledBatches
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.kit import Kit


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(serve)


def serve(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: pronounce, pronounce/3 or its folder.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    search: Annotated[
        str | None,
        typer.Option(help="How answers are searched for, such as 'beam size=5'; left out, as in the recipe."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the model goes; left out, a GPU if there is one.")] = None,
    compiled: Compiled = False,
    compiled_batches: CompiledBatches = False,
    batch: Annotated[int, typer.Option(min=1, help="The most texts the model works on at once.")] = 32,
    queue: Annotated[
        int, typer.Option(min=1, help="The most texts that wait; beyond that, it says it is busy.")
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

    from kit.opening import DifferentRunWarning
    from kit.predicting.predictor import load
    from kit.serving.about import About
    from kit.serving.attention import Showing
    from kit.serving.limits import Limits
    from kit.serving.running import listen
    from kit.serving.running import serve as start

    kit: Kit = context.obj
    listener, address = listen(host, port)
    with listener:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DifferentRunWarning)  # which is told below, in our words
            predictor = load(run, kit, device=device, compiled="batches" if compiled_batches else compiled)
        for difference in predictor.run.differences:
            errors.print(f"[yellow]warning:[/] not as when the run was made: {escape(difference)}", highlight=False)
        about = About.of(predictor, example or ())
        if compiled or compiled_batches:  # so that nobody waits for the compiler
            some = list(about.examples[:1]) or ["a"]
            predictor.predict(some, search=search)
            if compiled_batches:
                predictor.predict(some * batch, search=search)
        answering = Showing(predictor, search)
        limits = Limits(batch=batch, queue=queue, nbest=answering.most(Limits.nbest))
        if not address.loopback:
            errors.print(
                f"[yellow]warning:[/] whoever reaches {escape(address.host)} can use this; it asks for no password",
                highlight=False,
            )

        def ready() -> None:
            screen().print(
                f"{escape(about.run)} ({about.task}, {about.parameters:,} parameters) answers at {address.url}\n"
                "    stop it with Ctrl-C",
                highlight=False,
                soft_wrap=True,
            )

        start(answering, about, limits, listener, address.names(allow_host or ()), ready)
    screen().print("stopped; everything that was asked is answered", highlight=False)
