# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which LLVM is used: the one that MLIR_DIR or LLVM_DIR names, or the packages'."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from common import LLVM_MAJOR, LLVM_VERSION, SetupError

PACKAGED_PREFIX = Path(f"/usr/lib/llvm-{LLVM_MAJOR}")


@dataclass(frozen=True)
class LLVM:
    """An installed LLVM.

    Attributes:
        prefix: Folder with bin/, lib/ and include/.
        chosen: Whether the user chose it by MLIR_DIR or LLVM_DIR.
    """

    prefix: Path
    chosen: bool

    @property
    def mlir_dir(self) -> Path:
        """Folder of MLIRConfig.cmake."""
        return self.prefix / "lib" / "cmake" / "mlir"

    @property
    def complete(self) -> bool:
        """Whether what the build and the tests need of it is there."""
        needed = [self.mlir_dir / "MLIRConfig.cmake", *(self.prefix / "bin" / t for t in ("mlir-tblgen", "FileCheck"))]
        return all(path.exists() for path in needed)


def select() -> LLVM:
    """The LLVM to use.

    Raises:
        SetupError: MLIR_DIR or LLVM_DIR is set and names no complete LLVM of the right version.
    """
    for variable in ("MLIR_DIR", "LLVM_DIR"):
        value = os.environ.get(variable)
        if not value:
            continue
        llvm = LLVM(_prefix_of(Path(value).expanduser().resolve()), chosen=True)
        if not llvm.complete:
            raise SetupError(
                f"{variable}={value}: expected an LLVM {LLVM_MAJOR} with MLIR, its prefix or its lib/cmake/mlir, that has "
                "MLIRConfig.cmake, mlir-tblgen and FileCheck (LLVM_INSTALL_UTILS=ON)"
            )
        return llvm
    return LLVM(PACKAGED_PREFIX, chosen=False)


def _prefix_of(path: Path) -> Path:
    """The install prefix: `path` itself, or three folders above its lib/cmake/{llvm,mlir}."""
    return path.parents[2] if path.parts[-3:-1] == ("lib", "cmake") else path


def describe() -> str:
    """The version that is wanted, for messages."""
    return f"LLVM {LLVM_VERSION} (any {LLVM_MAJOR}.1 will do)"
