# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The primitive of JAX that calls a kernel: its shapes and types, and what a program of XLA has for it.

Its rules for `vmap` are in `batching`, those for derivatives in `derivatives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from tilewright.dims import Dim
from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError
from tilewright.jax.registry import TARGET, registry
from tilewright.operand import OperandSpec
from tilewright.payload.call_forms import stored_name
from tilewright.payload.spec_tables import Spec

jax: Any = import_module("jax")
_core: Any = import_module("jax.extend.core")
_ffi: Any = import_module("jax.ffi")
_mlir: Any = import_module("jax.interpreters.mlir")

Value = Any
"""An array of JAX, or a tracer."""

kernel_p: Any = _core.Primitive("tilewright_kernel")
"""Takes the operands of a spec, which is a parameter of it as `threads` is."""


def call(spec: Spec, *operands: Value, threads: int = 1) -> Value:
    """The result of the kernel of a spec.

    Args:
        spec: A `MatmulSpec`, `Conv2dSpec` or `AttentionSpec`.
        *operands: Its operands, in the order of the call: arrays of JAX, also traced ones.
        threads: As for `tilewright.compile`.

    Raises:
        OperandError: An operand has another shape or type than the spec says.
        SpecError: The spec adds to a former result, or takes packed operands.
        TilewrightError: It cannot be compiled; where the call is traced, when the program is lowered.
    """
    arrays = [jax.numpy.asarray(each) for each in operands]
    return kernel_p.bind(*_varying(arrays), spec=spec, threads=threads)


def _varying(arrays: Sequence[Value]) -> list[Value]:
    """The operands, all varying over the axes of a mesh over which one of them varies, as `shard_map` wants it."""
    axes = [_axes(jax.typeof(each)) for each in arrays]
    every = frozenset[str]().union(*axes)
    pairs = zip(arrays, axes, strict=True)
    return [
        jax.lax.pcast(each, tuple(sorted(every - own)), to="varying") if every != own else each for each, own in pairs
    ]


def _axes(aval: Any) -> frozenset[str]:  # noqa: ANN401 - an abstract value
    """The axes of a mesh over which an operand varies; releases of JAX have them in different places."""
    manual = getattr(aval, "manual_axis_type", None)
    return getattr(aval, "vma", frozenset()) if manual is None else manual.varying


def result_shape(spec: Spec, shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape of the result for operands of these shapes, whose dynamic extents may be symbols."""
    result: OperandSpec = spec.result
    if not any(isinstance(size, Dim) for size in result.shape):
        return tuple(result.shape)
    known: dict[str, Any] = {}
    for operand, shape in zip(spec.operands, shapes, strict=True):
        known |= dict(zip(operand.names, shape, strict=True))
    return tuple(
        known[name] if isinstance(size, Dim) else size for name, size in zip(result.names, result.shape, strict=True)
    )


def _abstract(*operands: Any, spec: Spec, threads: int) -> Any:  # noqa: ANN401 - as JAX calls it
    """The shape and type of the result.

    Raises:
        OperandError: An operand does not fit.
    """
    wanted = spec.operands
    if len(operands) != len(wanted):
        names = ", ".join(each.name for each in wanted)
        raise OperandError(f"{len(operands)} operands", where="tilewright.jax", expected=f"{len(wanted)} ({names})")
    for each, operand in zip(wanted, operands, strict=True):
        _check(each, tuple(operand.shape), str(operand.dtype))
    shape = result_shape(spec, [tuple(each.shape) for each in operands])
    return operands[0].update(
        shape=shape, dtype=to_numpy(spec.result.type), weak_type=False, sharding=_sharding(operands, len(shape))
    )


def _sharding(operands: Sequence[Any], rank: int) -> Any:  # noqa: ANN401 - of JAX
    """That of the result: whole, on the mesh of the operands; None without one.

    Raises:
        OperandError: An operand's type says that it is split over a mesh.
    """
    for each in operands:
        if any(axis is not None for axis in each.sharding.spec):
            raise OperandError(
                f"an operand is split over a mesh: {each}",
                where="tilewright.jax",
                expected="whole operands",
                remedy="Call it in jax.shard_map, where each device has its part",
            )
    mesh = operands[0].sharding.mesh
    return None if mesh.empty else jax.NamedSharding(mesh, jax.P(*[None] * rank))


def _check(wanted: OperandSpec, shape: tuple[Any, ...], type_: str) -> None:
    stored = wanted.stored
    fits = len(shape) == len(stored) and all(
        size in own if isinstance(own, Dim) and isinstance(size, int) else isinstance(own, Dim) or size == own
        for size, own in zip(shape, stored, strict=True)
    )
    if not fits:
        raise OperandError(f"is of shape {shape}", operand=wanted.name, expected=f"({', '.join(map(str, stored))})")
    element = stored_name(wanted.type).rpartition(".")[2]
    if type_ != element:
        raise OperandError(f"is of {type_}", operand=wanted.name, expected=element)


def _lower(context: Any, *operands: Any, spec: Spec, threads: int) -> Any:  # noqa: ANN401 - as JAX calls it
    """The custom call: the kernel is compiled here, once a program is known to need it."""
    kernel = registry().require(spec, threads)
    return _ffi.ffi_lowering(TARGET)(context, *operands, name=kernel.name, spec=kernel.text)


@partial(jax.jit, static_argnames=("spec", "threads"))
def _run(*operands: Value, spec: Spec, threads: int) -> Value:
    return kernel_p.bind(*operands, spec=spec, threads=threads)


kernel_p.def_abstract_eval(_abstract)
kernel_p.def_impl(_run)
_mlir.register_lowering(kernel_p, _lower, platform="cpu")
