# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Definitions of NVIDIA's device functions, so that libdevice is not needed."""

from __future__ import annotations

import re

from tilewright.errors import LoweringError

_INTRINSICS = {
    "fabs": "fabs",
    "fma": "fma",
    "copysign": "copysign",
    "floor": "floor",
    "fmax": "maxnum",
    "rint": "roundeven",
}
"""What LLVM calls functions of NVIDIA's library of device functions, each of which is one instruction."""
_DECLARED = re.compile(r"^declare (float|double) @__nv_(\w+)\((.*)\).*$", re.MULTILINE)


def defined(llvmir: str) -> str:
    """The module with a definition of each function of NVIDIA's library that MLIR's lowering has called: no such library is needed.

    Raises:
        LoweringError: There is one that is no single instruction.
    """

    def define(found: re.Match[str]) -> str:
        kind, called, parameters = found.groups()
        name = called.removesuffix("f") if kind == "float" else called
        if name not in _INTRINSICS:
            raise LoweringError(f"__nv_{called} is not known", stage="llvmir", expected=", ".join(_INTRINSICS))
        count = len(parameters.split(","))
        intrinsic = f"@llvm.{_INTRINSICS[name]}.{'f32' if kind == 'float' else 'f64'}"
        given = ", ".join(f"{kind} %{number}" for number in range(count))
        declaration = f"declare {kind} {intrinsic}({', '.join([kind] * count)})"
        body = f"  %r = call {kind} {intrinsic}({given})\n  ret {kind} %r"
        return f"{declaration}\ndefine private {kind} @__nv_{called}({given}) alwaysinline {{\n{body}\n}}"

    return _DECLARED.sub(define, llvmir)
