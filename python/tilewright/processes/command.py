# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the command line of every Python process that this package starts.

``python -m`` and ``python -c`` put the current folder first on the path of modules, where a file called json.py would be run in place
of Python's own. Children are isolated (-I), and get the folders that they import from as absolute paths.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tilewright.errors import TilewrightError

_PACKAGE = str(Path(__file__).resolve().parents[2])
_START = "import sys; sys.path[:] = {paths}; import runpy; runpy.run_module({module!r}, None, '__main__', True)"


def command(module: str, *arguments: str, python: Path | None = None) -> list[str]:
    """The command line that runs a module as a program.

    Args:
        module: Its dotted name.
        arguments: What it gets as ``sys.argv[1:]``.
        python: Another environment's interpreter, whose own packages come first; None: the running one, with what it imports from.

    Raises:
        TilewrightError: The running interpreter has no file, as in a program that embeds Python.
    """
    own = python is None or str(python) == sys.executable
    if own and not sys.executable:
        raise TilewrightError(
            "sys.executable is empty", where="child process", expected="the file of a Python interpreter"
        )
    paths = repr(paths_of_children()) if own else f"[*sys.path, {_PACKAGE!r}]"
    flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
    return [str(python or sys.executable), *flags, "-c", _START.format(paths=paths, module=module), *arguments]


def paths_of_children() -> list[str]:
    """The folders that children import from: Python's own, this package's, then this process's other ones.

    The current folder is none of them, whether this process names it by its path or not at all.
    """
    here = _current_folder()
    others = [path for path in sys.path if os.path.isabs(path) and os.path.realpath(path) != here]
    standard = [path for path in others if _is_standard(path)]
    return list(dict.fromkeys([*standard, _PACKAGE, *others]))


def _current_folder() -> str | None:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:  # It has been removed.
        return None


def _is_standard(path: str) -> bool:
    """Whether a folder of ``sys.path`` holds Python's own modules."""
    folder = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return path in (folder, os.path.join(folder, "lib-dynload")) or os.path.basename(path) == archive
