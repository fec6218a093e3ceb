# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for GPUs: compiled anywhere, run by the emulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dims import Dim
from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError, TargetError
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, Launch, TensorMap
from tilewright.runtime.kernel import Metadata
from tilewright.runtime.vulkan import Shader
from tilewright.spec import MatmulSpec, OperandSpec
from tilewright.targets.gpu import EMULATED, GpuTarget
from tilewright.version import VERSION

if TYPE_CHECKING:
    from tilewright.emit.gpu import Assembled, GpuStages

_ENTRY = "matmul"
_SWIZZLE = 128
_ALIGNMENT = 16
"""Bytes of a piece that is copied at once."""


def compile(
    spec: MatmulSpec, target: GpuTarget, schedule: str | None = None, parameters: Mapping[str, int] | None = None
) -> GpuKernel:
    """Compiles `spec` for a GPU.

    Args:
        spec: What to compute; extents m and n may differ from call to call whatever it says of them.
        target: The GPU, and on what its kernels run.
        schedule: A strategy's name; None to have one chosen.
        parameters: Sizes of the strategy that override the usual ones, by name.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        TargetError: The target has no such device.
        ScheduleError: The strategy is unknown or does not fit, or a size is wrong.
        LoweringError: A stage failed.
    """
    from tilewright.emit import gpu

    gpu.check(spec, target)
    if target.device and (target.family, target.device) not in _RUNNERS:
        raise TargetError(f"device {target.device!r} for {target.name}", expected="none: it runs shaders itself")
    name = gpu.able(spec, target)[-1] if schedule is None else schedule

    def build(aligned: bool) -> GpuStages:
        other = name if aligned or name not in gpu.STRATEGIES else gpu.STRATEGIES[name].unaligned
        return gpu.build(spec, target, other, (parameters or {}) if other == name else {}, aligned=aligned)

    return GpuKernel(build)


class GpuKernel:
    """A kernel for a GPU. A call takes and returns numpy arrays, as calls of `tilewright.Kernel` do.

    There are two forms of its code: one for operands whose rows all start at multiples of 16 bytes, which are copied into shared
    memory in pieces of that size, and one for all others, which is compiled when it is first needed.
    """

    def __init__(self, build: Callable[[bool], GpuStages]) -> None:
        """Makes a kernel of what `build` compiles, for aligned operands (True) and for others."""
        start = time.perf_counter()
        self._build = build
        self._forms = {True: build(True)}
        self._seconds = time.perf_counter() - start
        self._made: dict[bool, Any] = {}

    def _form(self, aligned: bool) -> GpuStages:
        if aligned not in self._forms:
            self._forms[aligned] = self._build(aligned)
        return self._forms[aligned]

    @property
    def _stages(self) -> GpuStages:
        return self._forms[True]

    @property
    def spec(self) -> MatmulSpec:
        """What the kernel computes."""
        return self._stages.spec

    @property
    def target(self) -> GpuTarget:
        """What it was compiled for."""
        return self._stages.target

    @property
    def asm(self) -> Mapping[str, str]:
        """The text of every stage by name, from the payload to PTX."""
        return dict(self._stages.texts)

    @property
    def metadata(self) -> Metadata:
        """How the kernel came about."""
        sizes, target = self._stages.sizes, self.target
        return Metadata(
            target=target.name,
            triple=target.triple,
            features=target.feature_string,
            schedule=self._stages.strategy,
            parameters={name: getattr(sizes, name) for name in type(sizes).__slots__},
            threads=sizes.threads,
            seconds={},
            compile_seconds=self._seconds,
            object_bytes=len(self._stages.binary),
            cached=False,
            version=VERSION,
            emulator="tilewright's emulator of NVVM" if target.device else "",
        )

    def assembled(self, *, aligned: bool = True) -> Assembled:
        """What NVIDIA's assembler makes of the kernel, in its form for aligned operands or for others.

        Raises:
            TargetError: There is none.
            LoweringError: It refused the kernel.
        """
        from tilewright.emit import gpu

        return gpu.assemble(self._form(aligned))

    def __call__(
        self, *operands: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None = None, seed: int = 0
    ) -> np.ndarray[Any, Any]:
        """Computes the product of arrays; `seed` decides in which order the emulator lets threads take turns.

        Raises:
            OperandError: An operand does not fit.
            TargetError: Nothing here runs the kernel.
            EmulationError: The emulator found that the kernel does something wrong.
        """
        spec = self.spec
        run = _RUNNERS.get((self.target.family, self.target.device))
        if run is None:
            raise TargetError(
                f"this machine cannot run a kernel for {self.target.name}",
                expected="a card of its kind",
                remedy='Kernels for NVIDIA cards are run by the emulator: device="emulated", or run --device emulated',
            )
        if len(operands) != len(spec.operands):
            raise OperandError(
                f"{len(operands)} operands", operand="kernel", expected=", ".join(each.name for each in spec.operands)
            )
        called = _called(spec, operands)
        for each, array in zip(called.operands, operands, strict=True):
            _check(each, array)
        if out is None:
            if spec.beta:
                raise OperandError("is missing", operand="out", expected="the array that is added to: beta is 1")
            out = np.empty(called.c_shape, to_numpy(spec.c_type))
        _check(called.result, out)
        if not out.flags.writeable:
            raise OperandError("is read-only", operand="out", expected="an array that can be written")
        if called.m and called.n:
            run(self, called, [*operands, out], seed)
        return out

    def code(self, aligned: bool, make: Callable[[GpuStages], Any]) -> tuple[GpuStages, Any]:
        """A form, and what `make` makes of it to run it, which is kept."""
        form = self._form(aligned)
        if aligned not in self._made:
            self._made[aligned] = make(form)
        return form, self._made[aligned]


def _emulate(kernel: GpuKernel, called: MatmulSpec, arrays: list[np.ndarray[Any, Any]], seed: int) -> None:
    """Runs the kernel in the emulator of NVVM."""
    aligned = all(_is_aligned(array) for array in arrays[:2])
    form, emulated = kernel.code(aligned, lambda stages: EmulatedGpuKernel(stages.texts["llvmir"], _ENTRY))
    arguments: list[Any] = []
    for array, transposed in _with_layout(called, arrays):
        shape, strides = _layout(array, transposed=transposed)
        arguments += [array, array, np.int64(0), *map(np.int64, shape), *map(np.int64, strides)]
    arguments += [TensorMap(_some(arrays[box.operand]), box.shape, _SWIZZLE) for box in form.boxes]
    sizes = Launch(_grid(called, form.sizes), (form.sizes.threads, 1, 1), dynamic_shared=form.shared_bytes)
    emulated(sizes, *arguments, seed=seed)


def _some(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An operand, or, where it has no elements, one that is never read: no tensor map describes nothing."""
    return array if array.size else np.zeros((1, _SWIZZLE), array.dtype)


def _shade(kernel: GpuKernel, called: MatmulSpec, arrays: list[np.ndarray[Any, Any]], seed: int) -> None:
    """Runs the kernel on a Vulkan device, on copies of the operands."""
    form, shader = kernel.code(True, lambda stages: Shader(stages.binary, _ENTRY, len(arrays) + 1))
    copies = [np.ascontiguousarray(array) for array in arrays]
    layouts = [_layout(array, transposed=transposed) for array, transposed in _with_layout(called, copies)]
    sizes = np.array([number for shape, strides in layouts for number in (*shape, *strides)], np.int32)
    shader(_grid(called, form.sizes), [sizes, *copies])
    arrays[-1][...] = copies[-1]


_RUNNERS: Mapping[tuple[str, str], Callable[..., None]] = MappingProxyType(
    {("nvidia", EMULATED): _emulate, ("vulkan", ""): _shade}
)
"""What runs kernels, by family of targets and device."""


def _grid(called: MatmulSpec, sizes: Any) -> tuple[int, int, int]:  # noqa: ANN401 - of any strategy
    """The blocks of a launch."""
    return -(-called.n // sizes.bn), -(-called.m // sizes.bm), 1


def _with_layout(called: MatmulSpec, arrays: list[np.ndarray[Any, Any]]) -> list[tuple[np.ndarray[Any, Any], bool]]:
    """Each array, and whether it is stored transposed."""
    transposed = (called.a_transposed, called.b_transposed)
    return [(array, any(transposed[number : number + 1])) for number, array in enumerate(arrays)]


def _is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether every row of a matrix starts at a multiple of 16 bytes."""
    return array.ctypes.data % _ALIGNMENT == 0 and (array.shape[0] <= 1 or array.strides[0] % _ALIGNMENT == 0)


def _layout(array: np.ndarray[Any, Any], *, transposed: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides, in elements, as the product has them."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return (array.shape[::-1], strides[::-1]) if transposed else (array.shape, strides)


def _called(spec: MatmulSpec, operands: tuple[object, ...]) -> MatmulSpec:
    """The spec with the extents of a call, which A and B tell.

    Raises:
        OperandError: They are no two matrices that can be multiplied, or not of the spec's extents.
    """
    shapes = []
    for name, array, transposed in zip("ab", operands, (spec.a_transposed, spec.b_transposed), strict=False):
        if not isinstance(array, np.ndarray) or array.ndim != 2:
            raise OperandError(f"is a {type(array).__name__}", operand=name, expected="a two-dimensional numpy array")
        shapes.append(array.shape[::-1] if transposed else array.shape)
    (m, k), (rows, n) = shapes
    if rows != k:
        raise OperandError(f"has {rows} elements along k", operand="b", expected=f"{k}, as a has")
    for axis, size, operand in (("m", m, "a"), ("n", n, "b"), ("k", k, "a")):
        wanted = getattr(spec, axis)
        if not (size in wanted if isinstance(wanted, Dim) else size == wanted):
            raise OperandError(f"has {size} elements along {axis}", operand=operand, expected=str(wanted))
    return replace(spec, m=m, n=n, k=k)


def _check(operand: OperandSpec, array: object) -> None:
    """Raises `OperandError` unless an operand is an array of the type and shape of the call, elements of rows adjacent."""
    if not isinstance(array, np.ndarray):
        raise OperandError(f"is a {type(array).__name__}", operand=operand.name, expected="a numpy array")
    wanted = to_numpy(operand.type)
    if array.dtype != wanted:
        raise OperandError(f"is of {array.dtype}", operand=operand.name, expected=str(wanted))
    if array.shape != operand.shape:
        raise OperandError(f"is of shape {array.shape}", operand=operand.name, expected=str(operand.shape))
    if array.size and array.ndim and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise OperandError(
            f"has strides {array.strides}",
            operand=operand.name,
            expected="elements of a row side by side",
            remedy="Make it contiguous with np.ascontiguousarray",
        )
