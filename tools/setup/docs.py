# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/reference/dialect.md from the TableGen files, and steps.md from docstrings."""

from __future__ import annotations

import sys

import steps_page
from common import BUILD, ROOT, SetupError, run, say

PARTS = {
    "Dialect": "TilewrightDialect",
    "Transform operations": "TilewrightTransformOps",
    "Passes": "TilewrightPasses",
}
"""Heading of each part, and mlir-tblgen's file."""
NOISE = ("<!--", "[TOC]", "# 'tilewright' Dialect")
"""Beginnings of the generated lines that are left out."""
TARGET = ROOT / "docs" / "reference" / "dialect.md"


def main() -> int:
    """Generates every part with mlir-tblgen and joins them; 0, or 1 after one line that says what is wrong."""
    try:
        run(["cmake", "--build", BUILD, "--target", "mlir-doc", "--", "--quiet"], what="generating the documentation")
    except SetupError as error:
        print(f"docs: error: {error}", file=sys.stderr)
        return 1
    parts = [f"## {heading}\n\n{_generated(name)}" for heading, name in PARTS.items()]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text("\n\n".join(["# The tilewright dialect", *parts]) + "\n", encoding="utf-8")
    say(f"wrote {TARGET.relative_to(ROOT)}")
    steps_page.write()
    return 0


def _generated(name: str) -> str:
    """What mlir-tblgen wrote, without the lines that only its own site needs, and one level down."""
    lines = (BUILD / "docs" / "Tilewright" / f"{name}.md").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(NOISE)]
    return "\n".join(f"#{line}" if line.startswith("##") and "###" not in line else line for line in kept).strip()


if __name__ == "__main__":
    sys.exit(main())
