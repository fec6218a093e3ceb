# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what a page of the lab's shows that was written as one file."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any


def data_of(page: str) -> dict[str, Any]:
    """What a page holds: the problem, the answer, the trace, and what ran."""
    (packed,) = re.findall(r'<script type="text/plain" id="saved">([\w-]*)</script>', page)
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(packed + "=="), -zlib.MAX_WBITS))


def shown_in(folder: Path) -> dict[str, Any]:
    """What the page of an explanation shows of the kernel."""
    return data_of((folder / "index.html").read_text(encoding="utf-8"))["answer"]


def lines_of(texts: dict[str, Any], number: int) -> list[str]:
    """A text of those that a page holds."""
    return [texts["lines"][at][0] for at in texts["texts"][number]]
