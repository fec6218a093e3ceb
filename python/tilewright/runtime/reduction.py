# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reduces the IR on which a transform op or a pass of MLIR's fails, by upstream's mlir-reduce."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.emit import dump
from tilewright.emit.mca import find_tool
from tilewright.lowering import instrument, pass_list

CASE, REDUCED, TEST = "case.mlir", "reduced.mlir", "interesting.sh"
"""The files of a case: the IR, the IR when it is reduced, and what says whether IR still has the fault."""
SCHEDULED = "scheduled"
"""The stage in which transform ops run."""
_OPT = Path(__file__).resolve().parents[1] / "bin" / "tilewright-opt"
_SECONDS = 120
_CRASHED = 128
"""The least exit status, of a shell, of what a signal ended."""
_SCRIPT = """#!/bin/sh
# Ends with 1 where the IR in the file $1 has the fault, as mlir-reduce wants it: tilewright-opt {how}.
here=$(dirname "$0")
said=$(tilewright-opt {options} "$1" 2>&1 >/dev/null)
status=$?
{shows} && exit 1
exit 0
"""


def case(dumped: Path, stage: str) -> tuple[str, str] | None:
    """The IR before what failed, and how tilewright-opt runs that; None where neither MLIR's passes nor the schedule failed.

    Args:
        dumped: The folder that ``TILEWRIGHT_DUMP`` has written for the compilation.
        stage: The stage that failed.
    """
    if stage == SCHEDULED:
        (payload,) = dumped.glob("*-payload.mlir")
        library = "--transform-preload-library=transform-library-paths=$here/bad.mlir"
        return payload.read_text(encoding="utf-8"), f'"{library}" --transform-interpreter'
    groups, log = sorted((dumped / "passes").glob("*")), dumped / dump.PASSES
    before = groups[-1] / f"{instrument.BEFORE}.mlir" if groups else dumped
    if not before.is_file() or not log.is_file() or not groups[-1].name.endswith(f"-{stage}"):
        return None
    lines = pass_list.read(log.read_text(encoding="utf-8"))
    if not lines or lines[-1].stage != stage:
        return None
    return before.read_text(encoding="utf-8"), shlex.quote(f"--pass-pipeline={lines[-1].pipeline}")


def reduced(text: str, options: str, beside: dict[str, str]) -> dict[str, str]:
    """The files of a case by name; none where the fault does not show outside of a compilation.

    Args:
        text: The IR.
        options: Those of tilewright-opt, for a shell; ``$here`` is the folder.
        beside: Files, by name, that the options name.

    Raises:
        TargetError: There is no mlir-reduce.
    """
    program = find_tool(name="mlir-reduce", package="mlir-22-tools")
    with tempfile.TemporaryDirectory(prefix="tilewright-reduce-") as name:
        folder = Path(name)
        for file, content in {**beside, CASE: text}.items():
            (folder / file).write_text(content, encoding="utf-8")
        # What the fault is, is known once it has been seen.
        said = _tried(folder, _SCRIPT.format(how="fails", options=options, shows='echo "$status $said"'))
        status, _, message = said.partition(" ")
        error = re.search(r"error: (.*)", message)
        if not status.isdigit() or status == "0" or (int(status) < _CRASHED and error is None):
            return {}
        if int(status) >= _CRASHED:
            how, shows = "crashes", f"test $status -ge {_CRASHED}"
        else:
            assert error is not None
            how, shows = "says the same", f"printf '%s' \"$said\" | grep -qF {shlex.quote(error[1])}"
        script = _SCRIPT.format(how=how, options=options, shows=shows)
        _tried(folder, script)
        tree = f"--reduction-tree=traversal-mode=0 test={folder / TEST}"
        command = [program, CASE, "--allow-unregistered-dialect", tree, "-o", REDUCED]
        _run(folder, command)
        files = {CASE: text, TEST: script}
        if (folder / REDUCED).is_file():
            files[REDUCED] = (folder / REDUCED).read_text(encoding="utf-8")
        return files


def _tried(folder: Path, script: str) -> str:
    """What a test says of the case; it is there then."""
    test = folder / TEST
    test.write_text(script, encoding="utf-8")
    test.chmod(0o755)
    return _run(folder, [test, CASE])


def _run(folder: Path, command: Sequence[str | Path]) -> str:
    """What a command prints in a folder, with tilewright-opt of this package; what it had to say when its time was up is lost."""
    path = f"{_OPT.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return done.stdout
    return ""
