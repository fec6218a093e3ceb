# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes one file of the page: its style sheets and modules in it, for pages that need no server."""

from __future__ import annotations

import functools
import re
from importlib import resources

_IMPORT = re.compile(r'^import (?:\* as )?(.*) from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|const|class|let)\b)", re.MULTILINE)
_NAMES = re.compile(r"^export (?:async )?(?:function|const|class|let) (\w+)", re.MULTILINE)
_STYLES = re.compile(r'<link rel="stylesheet" href="static/([\w.]+)">\n')
_SCRIPT = re.compile(r'<script type="module" src="static/([\w.]+)"></script>\n')
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_ICON = re.compile(r'<link rel="icon" [^>]*>')


PLACE = "<!--data-->"
"""Where the page's data goes, packed."""


@functools.cache
def page() -> str:
    """The page with its styles and scripts in it, and `PLACE` in the element that `saved.js` reads."""
    html = _file("index.html")
    css = "".join(_file(name) for name in _STYLES.findall(html))
    (main,) = _SCRIPT.findall(html)
    modules: dict[str, str] = {}
    _collect(main, modules)
    html = _ICON.sub('<link rel="icon" href="data:,">', _SCRIPT.sub("", _STYLES.sub("", html)))
    head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<style>{css}</style>\n</head>'
    data = f'<script type="text/plain" id="saved">{PLACE}</script>'
    scripts = f"{data}\n<script>{''.join(modules.values())}</script>\n</body>"
    return html.replace("</head>", head).replace("</body>", scripts)


def _collect(name: str, modules: dict[str, str]) -> None:
    """Adds a module after those that it imports, each as a function that returns what it exports."""
    if name in modules:
        return
    text = _file(name)
    modules[name] = ""
    for _, each in _IMPORT.findall(text):
        _collect(each, modules)
    del modules[name]
    body = _EXPORT.sub("", _IMPORT.sub(lambda found: f"const {found[1]} = {_variable(found[2])};\n", text))
    exported = ", ".join(_NAMES.findall(text))
    modules[name] = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"


def _variable(name: str) -> str:
    return f"module_{name.removesuffix('.js')}"


def _file(name: str) -> str:
    return resources.files("tilewright.lab").joinpath("static").joinpath(name).read_text(encoding="utf-8")
