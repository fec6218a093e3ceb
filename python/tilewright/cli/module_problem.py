# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one command line asks to be compiled when it is a whole module, and not one product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright.emit.built import Built
    from tilewright.runtime.linkable import Linkable


@dataclass(frozen=True, slots=True)
class ModuleProblem:
    """A module to compile.

    Attributes:
        text: Its text.
        filename: The file that it is from.
        target: For which target; this machine need not be able to run it.
        threads: Most threads that a product uses.
    """

    text: str
    filename: str
    target: Target
    threads: int

    @property
    def title(self) -> str:
        """What is computed: the file."""
        return Path(self.filename).name

    @property
    def flops(self) -> int:
        """0: operations are counted while compiling."""
        return 0

    @property
    def schedule(self) -> str:
        """How a module is scheduled: each product by itself, and nests between them."""
        return "modules"

    @property
    def sizes(self) -> Mapping[str, int]:
        """None: each product has its own."""
        return {}

    def facts(self) -> dict[str, object]:
        """What is compiled, for programs."""
        return {"module": self.filename}

    def build(self, until: str, *, for_linking: bool = False) -> Built:
        """Compiles up to the stage `until`; see `tilewright.runtime.compile_module.build_module`."""
        from tilewright.runtime.compile_module import build_module

        return build_module(self.text, self.filename, self.target, self.threads, until=until, for_linking=for_linking)

    @property
    def linkable(self) -> Linkable:
        """How it is made as a file."""
        from tilewright.runtime.compile_module import linkable

        return linkable(self.text, self.filename, self.target, self.threads)

    def __str__(self) -> str:
        """The file and the target."""
        return f"{self.filename} for {self.target.name}{f', {self.threads} threads' if self.threads > 1 else ''}"
