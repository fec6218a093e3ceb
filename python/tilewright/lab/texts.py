# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs texts of which many lines are equal: each different line once, and a text as the numbers of its lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.lab.located import Lines


class Texts:
    """Texts that are added one after the other."""

    def __init__(self) -> None:
        """Has none yet."""
        self._lines: dict[tuple[str, int], int] = {}
        self._sources: dict[str, int] = {"": 0}
        self._texts: dict[tuple[int, ...], int] = {}

    def add(self, lines: Iterable[tuple[str, str]] | Lines) -> int:
        """Adds a text; its number, that of an equal one where there is one."""
        key = tuple(self._line(text, source) for text, source in lines)
        return self._texts.setdefault(key, len(self._texts))

    def _line(self, text: str, source: str) -> int:
        at = self._sources.setdefault(source, len(self._sources))
        return self._lines.setdefault((text, at), len(self._lines))

    def as_json(self) -> dict[str, Any]:
        """All of them: ``lines`` with text and number in ``sources``, and ``texts`` as numbers of lines."""
        return {"lines": list(self._lines), "sources": list(self._sources), "texts": list(self._texts)}
