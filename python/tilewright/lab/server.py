# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's web server: the page, and what it asks for, on this machine only and for those who have the token."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette  # pyright: ignore[reportMissingImports] - of the extra
from starlette.concurrency import run_in_threadpool  # pyright: ignore[reportMissingImports] - of the extra
from starlette.requests import Request  # pyright: ignore[reportMissingImports] - of the extra
from starlette.responses import JSONResponse, PlainTextResponse, Response  # pyright: ignore[reportMissingImports] - of the extra
from starlette.routing import Route  # pyright: ignore[reportMissingImports] - of the extra

import tilewright
from tilewright import targets
from tilewright.errors import TilewrightError
from tilewright.lab import analysis, samples
from tilewright.lab import page as page_file
from tilewright.lab.compiler import Compiler, described, strategies
from tilewright.lab.problem import KINDS as KINDS_OF_SPECS
from tilewright.lab.problem import read
from tilewright.targets import registry

KINDS = ("compile", "trace", "run", "text", "speeds")
"""What a page can ask for."""
_MOST_BYTES = 1 << 20
"""Bytes of a request."""
_MOST_PAGE = 1 << 25
"""Bytes of what is to be saved, packed."""
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
Handler = Callable[[Request], Awaitable[Response]]


def application(compiler: Compiler, token: str, hosts: tuple[str, ...]) -> Starlette:
    """The server's application.

    Args:
        compiler: Who answers.
        token: What requests must have: the page in its address, its questions in a header.
        hosts: What a request may call this server, with the port: other names are somebody else's that lead here.
    """

    def guarded(handler: Handler, name: str) -> Handler:
        async def checked(request: Request) -> Response:
            if request.headers.get("host", "") not in hosts:
                return _refused(421, f"expected one of the hosts {', '.join(hosts)}")
            given = request.headers.get("x-token") or request.query_params.get("token", "")
            if name and not secrets.compare_digest(given.encode(), token.encode()):
                return _refused(403, "expected the token that `tilewright lab` printed, in the address after ?token=")
            answer = await handler(request)
            for header, value in _HEADERS.items():
                answer.headers[header] = value
            return answer

        return checked

    async def page(_request: Request) -> Response:
        return _file("index.html")

    async def file(request: Request) -> Response:
        return _file(request.path_params["name"])

    async def about(_request: Request) -> Response:
        return JSONResponse(
            {
                "version": tilewright.__version__,
                "isolation": str(compiler.sandbox),
                "limits": {"seconds": compiler.limits.seconds, "memory_mb": compiler.limits.memory_mb},
                "targets": _targets(),
                "strategies": strategies(),
                "kinds": KINDS_OF_SPECS,
                "examples": [each.as_json() for each in samples.all()],
            }
        )

    async def one_file(request: Request) -> Response:
        body = await request.body()
        if len(body) > _MOST_PAGE:
            return _refused(413, f"expected at most {_MOST_PAGE} bytes")
        try:
            made = await run_in_threadpool(lambda: page_file.fitting(page_file.unpacked(body.decode("ascii"))))
        except (TilewrightError, ValueError, LookupError, TypeError, AttributeError) as error:
            return _refused(400, f"no page: {error}")
        return JSONResponse({"page": made})

    async def machine(request: Request) -> Response:
        body = await request.body()
        if len(body) > _MOST_BYTES:
            return _refused(413, f"expected at most {_MOST_BYTES} bytes")
        try:
            asked = json.loads(body)
            card = targets.gpu(asked["target"])
            if card is None:
                return _refused(400, "expected a GPU")
            return JSONResponse(await run_in_threadpool(analysis.machine, asked["cubin"], card))
        except TilewrightError as error:
            return JSONResponse({"error": described(error)})
        except (ValueError, LookupError, TypeError) as error:
            return _refused(400, f"no code: {error}")

    def asking(kind: str) -> Handler:
        async def asked(request: Request) -> Response:
            body = await request.body()
            if len(body) > _MOST_BYTES:
                return _refused(413, f"expected at most {_MOST_BYTES} bytes")
            try:
                problem = read(json.loads(body))
            except ValueError as error:
                return _refused(400, f"no JSON: {error}")
            except TilewrightError as error:
                return JSONResponse({"error": described(error)})
            page = request.headers.get("x-page", "")
            return JSONResponse(await run_in_threadpool(compiler.answer, kind, problem, page))

        return asked

    routes: list[Any] = [
        Route("/", guarded(page, "page")),
        Route("/static/{name}", guarded(file, "")),
        Route("/api/about", guarded(about, "about")),
        Route("/api/machine", guarded(machine, "machine"), methods=["POST"]),
        Route("/api/page", guarded(one_file, "page"), methods=["POST"]),
        *(Route(f"/api/{kind}", guarded(asking(kind), kind), methods=["POST"]) for kind in KINDS),
    ]
    return Starlette(routes=routes)


def _refused(status: int, expected: str) -> Response:
    return PlainTextResponse(f"{expected}\n", status)


def _file(name: str) -> Response:
    """A file of the page's."""
    place = resources.files("tilewright.lab").joinpath("static")
    known = {each.name: each for each in place.iterdir()}
    if name not in known:
        return _refused(404, f"expected one of {', '.join(sorted(known))}")
    kind = _TYPES[name.rsplit(".", 1)[-1]]
    return Response(known[name].read_bytes(), media_type=kind)


def _targets() -> list[dict[str, str]]:
    """The targets, this machine first."""
    rows = [{"name": each.name, "about": each.triple, "kind": "processors"} for each in registry.all()]
    cards = [{"name": each.name, "about": each.triple, "kind": "gpus"} for each in registry.GPUS]
    return [{"name": "host", "about": "this machine", "kind": "processors"}, *rows, *cards]
