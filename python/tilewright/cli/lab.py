# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright lab``: a local web page to edit schedules and see what they make."""

from __future__ import annotations

import secrets

import click

from tilewright.cli import options
from tilewright.errors import TilewrightError

_HOST = "127.0.0.1"


@options.verb(short_help="Edit schedules in a local web page, and see the code and its cost.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Where to listen.")
@click.option("--seconds", type=options.Number(1, 600), default=10.0, show_default=True, help="Most time of an answer.")
@click.option(
    "--memory-mb", type=click.IntRange(256), default=4096, show_default=True, help="Most MiB of memory of an answer."
)
@click.option("--no-sandbox", is_flag=True, help="Do not use bubblewrap, also where it is installed.")
def lab(port: int, seconds: float, memory_mb: int, no_sandbox: bool) -> None:
    """Serve the lab to this machine alone, until Ctrl-C, and print its address.

    Edit a schedule, in Python or MLIR, and see each step of the IR, the assembly, the cost of its hot loop, its time and
    whether its numbers are right. Schedules run in child processes, in bubblewrap where it is installed.
    """
    try:
        import starlette  # noqa: F401 # pyright: ignore[reportUnusedImport, reportMissingImports]
        import uvicorn  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise TilewrightError(
            f"{error.name} is not installed",
            where="tilewright lab",
            expected="the extra tilewright[lab]",
            remedy="Install starlette and uvicorn with pip, or run `make setup-lab` in a checkout",
        ) from None
    from tilewright.emit.child import Limits
    from tilewright.lab import sandbox
    from tilewright.lab.compiler import Compiler
    from tilewright.lab.listening import bound
    from tilewright.lab.server import application

    token = secrets.token_urlsafe(16)
    with bound(_HOST, port) as line, Compiler(sandbox.find(not no_sandbox), Limits(seconds, memory_mb)) as compiler:
        place = f"{_HOST}:{line.getsockname()[1]}"
        hosts = (place, place.replace(_HOST, "localhost"))
        click.echo(f"http://{place}/?token={token}")
        click.echo(f"isolation: {compiler.sandbox}; at most {seconds:g} s and {memory_mb} MiB an answer")
        made = application(compiler, token, hosts)
        # A page that is open may keep its connections for long.
        config = uvicorn.Config(made, log_level="error", access_log=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        server.run(sockets=[line])
