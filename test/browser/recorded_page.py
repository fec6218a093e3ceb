# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab's page with answers that were recorded, without a server: the same on every machine, at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from tilewright.emit.child import Limits
from tilewright.lab import page as lab_page
from tilewright.lab import samples, sandbox
from tilewright.lab.compiler import Compiler
from tilewright.lab.problem import KINDS, read

RENEWS = bool(os.environ.get("TILEWRIGHT_PICTURES"))
"""Whether answers and pictures are made anew, and nothing is compared."""
SIZES = {"wide": (1280, 896), "narrow": (400, 848)}
"""Of the page, in multiples of 8 pixels."""
_RECORDED = Path(__file__).parent / "recorded.txt"
_ORIGIN = "http://127.0.0.1:9"
"""Nobody is there: `shown` answers."""
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def answers() -> dict[str, Any]:
    """What the page is answered, by kind."""
    if RENEWS:
        _RECORDED.write_text(lab_page.packed(recording()) + "\n", encoding="ascii")
    return lab_page.unpacked(_RECORDED.read_text(encoding="ascii").strip())


def recording() -> dict[str, Any]:
    """What a server says of a small product for AVX2, on a machine that has that."""
    (sample,) = (each for each in samples.all() if each.name == "register_tile")
    asked = {**sample.product, "shape": "48x96x64", "language": "py", "text": sample.text, "target": "x86-64-v3"}
    with Compiler(sandbox.find(), Limits(60, 4096)) as compiler:
        said = {kind: compiler.answer(kind, read(dict(asked)), "") for kind in ("compile", "trace", "run", "speeds")}
    example = sample.as_json()
    example["product"]["shape"] = asked["shape"]
    return said | {
        "about": {
            "version": "",
            "isolation": "bubblewrap: no network, no files but system libraries, Python and tilewright; a seccomp filter",
            "limits": {"seconds": 30, "memory_mb": 4096},
            "targets": [{"name": "host", "about": "this machine", "kind": "processors"}],
            "strategies": {"processors": {}, "gpus": {}},
            "kinds": KINDS,
            "examples": [example],
        }
    }


@contextmanager
def shown(browser: Any, recorded: dict[str, Any], css: str, size: str, scheme: str) -> Iterator[Any]:
    """The page, with everything that was answered on it."""
    static = resources.files("tilewright.lab").joinpath("static")

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix(_ORIGIN).partition("?")[0].strip("/")
        if path.startswith("api/"):
            route.fulfill(content_type="application/json", body=json.dumps(recorded[path.removeprefix("api/")]))
            return
        name = path.removeprefix("static/") or "index.html"
        route.fulfill(content_type=_TYPES[name.rsplit(".", 1)[-1]], body=static.joinpath(name).read_text("utf-8"))

    width, height = SIZES[size]
    with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
        page = context.new_page()
        page.route("**/*", answer)
        page.add_init_script("performance.now = () => 0")
        page.goto(_ORIGIN + "/")
        page.add_style_tag(content=css)
        page.wait_for_selector("#tiles >> text=numbers are right", state="attached")
        page.wait_for_selector("#ir .row", state="attached")
        page.wait_for_function("() => document.querySelector('#ir-pane').getAttribute('aria-busy') === 'false'")
        page.evaluate("document.fonts.ready")
        yield page
