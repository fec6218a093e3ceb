# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the bytes of machine code that instructions of an assembly text take, as llvm-mc assembles the whole of it.

Only the whole text tells: how long a jump is depends on how far away its label is.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Collection, Mapping

from tilewright.emit import mca
from tilewright.errors import TargetError
from tilewright.targets.base import Target

_MARK = b"tilewright sizes:"
_TIMEOUT_S = 120


def sizes(asm: str, target: Target, lines: Collection[int]) -> Mapping[int, int]:
    """The bytes of the instruction on each of the lines, from 1.

    Labels around each instruction, and a section with their differences behind a mark, have the assembler itself say it.

    Raises:
        TargetError: llvm-mc is absent, or cannot assemble the text.
    """
    tool = mca.find_tool(name="llvm-mc")
    asked = sorted(set(lines))
    text = asm.splitlines()
    for line in asked:
        text[line - 1] = f".Ltw_from{line}:\n{text[line - 1]}\n.Ltw_to{line}:"
    text += [".section .tilewright_sizes", f'.ascii "{_MARK.decode()}"']
    text += [f".4byte .Ltw_to{line} - .Ltw_from{line}" for line in asked]
    features = target.feature_string
    if target.architecture.startswith("riscv"):
        features += ",-relax"  # A linker that may shorten code leaves differences of labels open.
    command = [str(tool), f"-triple={target.triple}", f"-mattr={features}", "-filetype=obj", "-o", "-"]
    try:
        done = subprocess.run(
            command, input="\n".join([*text, ""]).encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"llvm-mc could not be run: {error}", where=command[0]) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").splitlines()
        message = next((line for line in said if "error" in line), f"exit status {done.returncode}")
        raise TargetError(f"llvm-mc failed: {message}", where=command[0], expected=f"assembly of {target.triple}")
    start = done.stdout.index(_MARK) + len(_MARK)
    return dict(zip(asked, struct.unpack_from(f"<{len(asked)}I", done.stdout, start), strict=True))
