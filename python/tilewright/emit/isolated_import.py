# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a user's .mlir file of one product in a child process, so that a crash in MLIR's parser is an error.

The child is this module too. It answers with plain data: nothing that came from the file is unpickled here.
"""

from __future__ import annotations

from typing import Any

from tilewright.emit import child
from tilewright.errors import SpecError
from tilewright.spec import MatmulSpec

_FIELDS = ("m", "n", "k", "a", "b", "c", "layout", "beta")
"""Those of a spec that a file decides."""


def load(text: str, filename: str) -> tuple[MatmulSpec, str]:
    """What the function in the text of a .mlir file computes, and its name, as `payload.importer.load` reads them.

    Args:
        text: The file's text.
        filename: The file's name, for errors.

    Raises:
        SpecError: The text is not valid MLIR, or holds more or less than one product; the error names the place.
        LoweringError: MLIR crashed or took too long; the error names a reproducer.
    """
    request = {"text": text, "filename": filename}
    try:
        answer = child.ask(__name__, request, child.Limits.of_compilation(), needs=["tilewright.payload.importer"])
    except child.EndedError as ended:
        files = {"module.mlir": text, "README.txt": "tilewright compile module.mlir --emit payload -o -\n"}
        raise ended.as_error(files, "The file and how to read it are") from None
    return MatmulSpec(**answer["spec"]), answer["function"]


def _answer(request: dict[str, Any], _tell: child.Tell) -> dict[str, Any]:
    """Reads the file. Errors are answers too."""
    from tilewright.payload import importer

    try:
        found = importer.load(request["text"], request["filename"])
    except SpecError as e:
        return child.error_as_json(e)
    return {"spec": {name: getattr(found.spec, name) for name in _FIELDS}, "function": found.function}


def main() -> None:
    """The child."""
    child.answer_with(_answer)
