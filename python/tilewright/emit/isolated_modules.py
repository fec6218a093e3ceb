# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a user's module in a child process, so that a crash inside MLIR is an error.

This process never imports MLIR for it. The child is this module too.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from tilewright.emit import child, versions
from tilewright.errors import LoweringError, ScheduleError, SpecError
from tilewright.payload.signature import Signature
from tilewright.targets.base import Target


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the child answered.

    Attributes:
        functions: What each of the module's functions takes and gives.
        texts: The text of each stage reached, in order.
        seconds: The time each stage took, in order.
        object: The ELF object; empty when an earlier stage was wanted.
        libraries: The libraries that made it, as `versions.libraries` tells them.
    """

    functions: tuple[Signature, ...]
    texts: dict[str, str]
    seconds: dict[str, float]
    object: bytes
    libraries: dict[str, str]

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that a call needs at most."""
        return max((each.workspace for each in self.functions), default=0)


def build(
    text: str,
    filename: str,
    target: Target,
    *,
    threads: int,
    until: str,
    for_linking: bool,
    plain: bool,
    symbol: str,
) -> Compiled:
    """As `modules.build`, in a child process.

    Args:
        text: The module.
        filename: Its name, for errors.
        target: For which target.
        threads: Most threads that a product uses.
        until: The last stage wanted.
        for_linking: Whether entries get their scratch memory from the C library.
        plain: Whether each op becomes loops over elements, by itself.
        symbol: The name of the C entry of the only function; empty for the function's own.

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
        "until": until,
        "for_linking": for_linking,
        "plain": plain,
        "symbol": symbol,
    }
    try:
        answer = child.ask("tilewright.emit.isolated_modules", request, child.Limits.of_compilation())
    except child.EndedError as ended:
        command = f"tilewright compile module.mlir --threads {threads} --target {target.name} --emit {until} -o -\n"
        files = {"module.mlir": text, "README.txt": command}
        raise ended.as_error(files, "The module and how to compile it are") from None
    functions = tuple(Signature.from_json(each) for each in answer["functions"])
    object_ = base64.b64decode(answer["object"])
    return Compiled(functions, answer["texts"], answer["seconds"], object_, answer["libraries"])


def _answer(request: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    """Compiles what `request` asks for. Errors are answers too."""
    from tilewright.emit import modules
    from tilewright.lowering import driver

    try:
        built = modules.build(
            request["text"],
            request["filename"],
            child.target_from_json(request["target"]),
            threads=request["threads"],
            until=request["until"],
            plain=request["plain"],
            symbol=request["symbol"],
            allocator=driver.LIBC_ALLOCATOR if request["for_linking"] else driver.RUNTIME_ALLOCATOR,
            started=tell,
        )
    except (SpecError, ScheduleError, LoweringError) as e:
        return child.error_as_json(e)
    return {
        "functions": [each.as_json() for each in built.functions],
        "texts": built.texts,
        "seconds": built.seconds,
        "object": base64.b64encode(built.object).decode(),
        "libraries": versions.libraries(),
    }


if __name__ == "__main__":
    child.answer_with(_answer)
