# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is compiled for a library, and how: a product, an operator, or the functions of a module, under what was chosen for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tilewright import text_files
from tilewright.emit import operators
from tilewright.emit.pipeline import Record
from tilewright.errors import TilewrightError
from tilewright.libraries.kernels import Source
from tilewright.operator_specs import OperatorSpec
from tilewright.runtime import compile_module, product_files, products
from tilewright.runtime import operators as measured
from tilewright.runtime.cache_key import Compilation
from tilewright.spec import MatmulSpec
from tilewright.targets import Target


def of(source: Source, target: Target, threads: int) -> tuple[Compilation, Callable[..., Record], int]:
    """What is compiled, the function that does it, which takes fields of `pipeline.Wanted`, and most threads that a call uses.

    Raises:
        TilewrightError: The file cannot be read, or nothing computes the spec.
    """
    problem = _text(source) if isinstance(source, Path) else source
    chosen: dict[str, Any] = {}
    used = threads
    # A measurement may have chosen otherwise since.
    if isinstance(problem, MatmulSpec):
        plan = products.plan(problem, target, threads=threads)
        chosen = {"schedule": plan.name, "parameters": plan.sizes}
        used, build = plan.threads, partial(product_files.build, problem, target, plan)
    elif isinstance(problem, OperatorSpec):
        chosen = {"parameters": measured.sizes(problem, target, threads)}
        build = partial(operators.build, problem, target, threads=threads, **chosen)
    else:
        build = partial(compile_module.build_module, problem, str(source), target, threads)
    what = Compilation(kind="library", problem=problem, target=target, threads=threads, **chosen)
    return what, build, used


def _text(file: Path) -> str:
    try:
        return text_files.read(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise TilewrightError(f"cannot read it: {reason}", where=str(file), expected="a .mlir file") from None
