# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a user's module in a child process, so that a crash inside MLIR is an error.

This process never imports MLIR for it. The child is this module too.
"""

from __future__ import annotations

from typing import Any

from tilewright.emit import child, pipeline, versions
from tilewright.emit.built import Built
from tilewright.errors import LoweringError, ScheduleError, SpecError
from tilewright.targets.base import Target


def build(
    text: str,
    filename: str,
    target: Target,
    *,
    threads: int,
    plain: bool,
    until: str = pipeline.BINARY,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """As `modules.build`, in a child process.

    Raises:
        SpecError: The module is not valid, or holds what is not supported; the error names the place.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed; MLIR crashed or took too long, and the error names a reproducer.
    """
    request = {
        "text": text,
        "filename": filename,
        "target": child.target_as_json(target),
        "threads": threads,
        "plain": plain,
        "wanted": {"until": until, **wanted},
    }
    try:
        answer = child.ask(__name__, request, child.Limits.of_compilation(), needs=["tilewright.emit.modules"])
    except child.EndedError as ended:
        command = f"tilewright compile module.mlir --threads {threads} --target {target.name} --emit {until} -o -\n"
        files = {"module.mlir": text, "README.txt": command}
        raise ended.as_error(files, "The module and how to compile it are") from None
    return Built.from_json(answer)


def _answer(request: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    """Compiles what `request` asks for. Errors are answers too."""
    from tilewright.emit import modules

    try:
        built = modules.build(
            request["text"],
            request["filename"],
            child.target_from_json(request["target"]),
            threads=request["threads"],
            plain=request["plain"],
            started=tell,
            **request["wanted"],
        )
    except (SpecError, ScheduleError, LoweringError) as e:
        return child.error_as_json(e)
    built.libraries = versions.libraries()
    return built.as_json()


def main() -> None:
    """The child."""
    child.answer_with(_answer)
