# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVIDIA's cards: kernels loaded by cuda-core, launched on operands in a card's memory, or on copies of numpy arrays there.

The package cuda-core and the driver are looked for when a kernel is called, not before: kernels are compiled anywhere. What the
driver reports becomes an error of ours. A launch is the driver's own call (``cuLaunchKernelEx``): it says clusters in the same
way in every version, and takes tensor maps by value.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.emit import ptxas, versions
from tilewright.emit.pipeline import Record
from tilewright.errors import LoweringError, TargetError
from tilewright.runtime import cache_key, gpu_call
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.card_workspaces import Workspaces
from tilewright.runtime.cuda_core import EMULATED, checked, handle_of, packages
from tilewright.runtime.gpu_call import Array
from tilewright.runtime.launches import Launch
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from tilewright.codegen.gpu.tma_tiles import Box
    from tilewright.emit.gpu_stages import GpuStages
    from tilewright.payload.patch_windows import Window

_ENTRY = "matmul"
_MAP_BYTES = 128
"""Of a tensor map, which also fulfils its alignment to 64. Source: CUDA Driver API, CUtensorMap."""
_SWIZZLES: Mapping[tuple[int, int], str] = MappingProxyType(
    {(0, 16): "NONE", (32, 16): "32B", (64, 16): "64B", (128, 16): "128B", (128, 32): "128B_ATOM_32B"}
)
"""The driver's names of swizzles, by the bytes of their pattern, and those that it moves at once."""
_MAP_TYPES: Mapping[int, str] = MappingProxyType({1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"})
"""The driver's names of elements as tensor maps copy them, by their bytes: as they are."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card of this machine.

    Attributes:
        number: Its number among them.
        name: Its name.
        capability: Its compute capability.
        processors: Its multiprocessors.
    """

    number: int
    name: str
    capability: tuple[int, int]
    processors: int

    def runs(self, target: GpuTarget) -> bool:
        """Whether it runs code for a target: of its own capability exactly where the name ends in a letter, else of any lower one."""
        found = re.fullmatch(r"sm_(\d+)(\d)(a?)", target.name)
        assert found is not None, "NVIDIA's rows are named so"
        wanted = int(found[1]), int(found[2])
        return self.capability == wanted if found[3] else self.capability >= wanted


def find(target: GpuTarget, number: int = 0) -> Card:
    """The card of that number.

    Raises:
        TargetError: There is none that runs code for the target, or cuda-core or the driver is missing.
    """
    card = _open(number, target.name)
    if not card.runs(target):
        raise TargetError(
            f"{card.name} has compute capability {card.capability[0]}.{card.capability[1]}",
            where=f"a kernel for {target.name}",
            expected=f"a card that runs {target.name}",
            remedy=f"Compile for this card. {EMULATED}",
        )
    return card


@cache
def _open(number: int, wanted: str) -> Card:
    """The card of that number, asked for by a kernel for the target `wanted`."""
    core, driver = packages(wanted)
    where = f"a kernel for {wanted}"
    try:
        (status,) = driver.cuInit(0)
        count = driver.cuDeviceGetCount()[1] if int(status) == 0 else 0
    except RuntimeError as e:  # cuda-bindings' own, where it finds no libcuda.
        raise TargetError(
            f"cannot load NVIDIA's driver: {str(e).splitlines()[0]}",
            where=where,
            expected="libcuda.so.1, which the driver brings",
            remedy=f"Install NVIDIA's driver, on a machine with a card. {EMULATED}",
        ) from None
    if number >= count:
        raise TargetError(
            f"there are {count} cards, and number {number} is asked for" if count else "the driver finds no card",
            where=where,
            expected="a card of its kind",
            remedy=f"See what nvidia-smi lists. {EMULATED}",
        )
    with reported(where):
        device = core.Device(number)
        device.set_current()
        facts, capability = device.properties, device.compute_capability
        return Card(number, str(device.name), (capability.major, capability.minor), facts.multiprocessor_count)


@contextmanager
def reported(where: str) -> Iterator[None]:
    """Makes the driver's errors ours.

    Raises:
        TargetError: The driver reported something, which the error quotes.
    """
    try:
        yield
    except Exception as e:
        if not _is_reported(e):
            raise
        raise TargetError(
            f"the driver reports {e}",
            where=where,
            remedy="compute-sanitizer finds out more, as does a run on target.emulated()",
        ) from e


def _is_reported(error: Exception) -> bool:
    """Whether an error is one that the driver has reported."""
    return isinstance(error, RuntimeError) or type(error).__name__ in ("CUDAError", "OutOfMemoryError")


@contextmanager
def current(card: Card) -> Iterator[Any]:
    """Makes a card the current one; afterwards what was current before is so again. Gives cuda-core's device."""
    core, driver = packages(card.name)
    with reported(card.name):
        before = checked(driver.cuCtxGetCurrent())
        device = core.Device(card.number)
        device.set_current()
        try:
            yield device
        finally:
            if int(before):
                checked(driver.cuCtxSetCurrent(before))


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Parameters of a launch.

    Attributes:
        place: The address of their addresses.
        memory: What holds all of them.
    """

    place: int
    memory: tuple[object, ...]


class Loaded:
    """A form of a kernel on one card.

    Attributes:
        form: The form.

    Raises (the constructor):
        TargetError: The driver does not load it.
    """

    def __init__(self, card: Card, form: GpuStages, cubin: bytes | None = None) -> None:
        """Loads it: `cubin`, or assembled here where NVIDIA's assembler is, and by the driver otherwise. The card has to be current."""
        self._card, self.form = card, form
        core, self._driver = packages(form.target.name)
        with reported(f"loading a kernel for {form.target.name}"):
            self._kernel = _kernel(core, form, cubin)
            handle = handle_of(self._kernel)
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device = checked(self._driver.cuDeviceGet(card.number))
            kernel = self._driver.CUkernel(handle)
            checked(self._driver.cuKernelSetAttribute(attribute, form.shared_bytes, kernel, device))
            self._function = self._driver.CUfunction(handle)  # A CUkernel is launched as one.
            self._processors = self._counted()
            self._workspaces = Workspaces(self._driver)

    def bound(self, called: gpu_call.Problem, arrays: Sequence[Array]) -> Callable[[int], None]:
        """What launches it on these arrays, on the stream that it is given: all but the launch itself is done here, once.

        Raises:
            TargetError: The driver refuses an array.
        """
        sizes = gpu_call.launch(self.form, called, self._processors)
        words: list[int] = []
        for array, (shape, strides) in zip(arrays, gpu_call.laid_out(self.form.spec, called, arrays), strict=True):
            words += [gpu_call.address(array), gpu_call.address(array), 0, *shape, *strides]
        boxes = self.form.boxes
        memory = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(memory)
        maps = ctypes.create_string_buffer(_MAP_BYTES * (len(boxes) + 1))
        first = -(-ctypes.addressof(maps) // _MAP_BYTES) * _MAP_BYTES
        operands = [start + 8 * number for number in range(len(words))]
        mapped = [first + _MAP_BYTES * number for number in range(len(boxes))]
        for box, place in zip(boxes, mapped, strict=True):
            self._encode(arrays, box, place)
        workspace = gpu_call.workspace(self.form, sizes)
        driver, function = self._driver, self._function
        prepared: dict[object, tuple[Any, _Parameters]] = {}

        def prepare(stream: int) -> tuple[Any, _Parameters]:
            config = self._config(sizes)
            config.hStream = driver.CUstream(stream)
            between, held = [], ctypes.c_int64()
            if workspace:
                with reported(f"memory for a kernel for {self.form.target.name}"):
                    held.value = self._workspaces.of(stream, workspace)
                between = [ctypes.addressof(held)]
            places = [*operands, *between, *mapped]
            pointers = (ctypes.c_void_p * len(places))(*places)
            return config, _Parameters(ctypes.addressof(pointers), (memory, held, maps, pointers))

        def launch(stream: int) -> None:
            # One for each stream, which nothing changes: other threads may launch at the same time, and graphs capture it.
            key = self._workspaces.key(stream) if workspace else stream
            if key not in prepared:
                prepared[key] = prepare(stream)
            config, parameters = prepared[key]
            (status,) = driver.cuLaunchKernelEx(config, function, parameters.place, 0)
            if status:
                with reported(f"launching a kernel for {self.form.target.name}"):
                    checked((status,))

        return launch

    def _counted(self) -> int:
        """Multiprocessors on which blocks of the kernel can be at the same time.

        Blocks of a cluster lie in one part of the chip: of some parts a few multiprocessors are then left over, and a grid as large as
        the chip would have clusters that begin when all others have ended. Source: CUDA Driver API, cuOccupancyMaxActiveClusters.
        """
        sizes: Any = self.form.sizes
        blocks = getattr(sizes, "blocks", 1) if self.form.boxes else 1
        if blocks == 1:
            return self._card.processors
        one = Launch((blocks, 1, 1), (sizes.threads, 1, 1), (blocks, 1, 1), self.form.shared_bytes)
        return blocks * checked(self._driver.cuOccupancyMaxActiveClusters(self._function, self._config(one)))

    def _config(self, sizes: Launch) -> Any:  # noqa: ANN401 - the driver's
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = sizes.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = sizes.block
        config.sharedMemBytes = sizes.dynamic_shared
        config.numAttrs = 0
        attributes: list[Any] = []
        if sizes.cluster != (1, 1, 1):
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            cluster = attribute.value.clusterDim
            cluster.x, cluster.y, cluster.z = sizes.cluster
            attributes.append(attribute)
        if self.form.follows:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if attributes:
            config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def _encode(self, arrays: Sequence[Array], box: Box, place: int) -> None:
        """Writes the tensor map of an operand, innermost axis first, to an address."""
        driver = self._driver
        shape, strides, address, size = _as_mapped(self.form.spec, arrays, box.operand)
        if box.window:
            shape = box.window.images(shape[1]), *box.window.extents
            strides = *(pitch * size for pitch in box.window.pitches), size
        axes = len(shape)
        given = (
            *(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[size]}"), axes, address),
            *((ctypes.c_uint64 * axes)(*reversed(shape)), (ctypes.c_uint64 * axes)(*strides[-2::-1])),
            *(_boxes(box, axes) if box.window is None else _patches(box, box.window)),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[box.swizzle, box.atom]}"),
            # The next step's 128 bytes of a row, or the next box's, come into the L2 cache together with those of this one.
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        with reported(f"describing an operand of a kernel for {self.form.target.name}"):
            encode = _encoder(driver, of_patches=box.window is not None)
            status = encode(place, *(int(each) if isinstance(each, IntEnum) else each for each in given))
            checked((driver.CUresult(status),))


def _boxes(box: Box, axes: int) -> tuple[Any, ...]:
    """What a tensor map says of the boxes of a tensor: their extents, and steps of one element."""
    return (ctypes.c_uint32 * axes)(*reversed(box.shape)), (ctypes.c_uint32 * axes)(*[1] * axes)


def _patches(box: Box, window: Window) -> tuple[Any, ...]:
    """What one says of boxes of patches: corners of the images' windows, channels and pixels of a box, and steps."""
    corners = ((ctypes.c_int32 * 2)(*corner[::-1]) for corner in (window.lower, window.upper))
    pixels, channels = box.shape
    return *corners, channels, pixels, (ctypes.c_uint32 * 4)(1, *window.steps[::-1], 1)


@cache
def _encoder(driver: Any, *, of_patches: bool) -> Any:  # noqa: ANN401 - a function of ctypes
    """The driver's function that makes a tensor map: that of the bindings gives one that is not aligned as it has to be."""
    name = b"cuTensorMapEncodeIm2col" if of_patches else b"cuTensorMapEncodeTiled"
    address = checked(driver.cuGetProcAddress(name, 12000, 0)[:2])
    number, pointer = ctypes.c_uint32, ctypes.c_void_p
    boxes = [pointer, pointer, number, number, pointer] if of_patches else [pointer, pointer]
    kind = ctypes.CFUNCTYPE(number, pointer, number, number, *[pointer] * 3, *boxes, *[number] * 4)
    return kind(int(address))


def _kernel(core: Any, form: GpuStages, cubin: bytes | None) -> Any:  # noqa: ANN401 - cuda-core, and its kernel
    """The kernel as cuda-core loads it: assembled here, or by the driver, where no assembler is here or the driver is older than it."""
    if cubin is None:
        try:
            cubin = _assembled(form)
        except LoweringError as e:
            raise TargetError(e.what, where=f"a kernel for {form.target.name}") from e
        except TargetError:
            return core.ObjectCode.from_ptx(form.object).get_kernel(_ENTRY)
    try:
        return core.ObjectCode.from_cubin(cubin).get_kernel(_ENTRY)
    except Exception as e:
        if not _is_reported(e) or not form.object:
            raise
        return core.ObjectCode.from_ptx(form.object).get_kernel(_ENTRY)


def _assembled(form: GpuStages) -> bytes:
    """The cubin of a kernel, from the disk cache, or assembled, and then put there."""
    program = ptxas.tool("ptxas")
    if program is None:
        return ptxas.assemble(form).cubin
    assembler = f"{program} {versions.version_of(program)}"
    what = Compilation(kind="cubin", problem=form.texts["ptx"], target=form.target, assembler=assembler)

    def made() -> tuple[Record, dict[str, str]]:
        return Record(object=ptxas.assemble(form).cubin, libraries={}), {"spec": str(form.spec)}

    return cache_key.fetch(what, made).record.object


def _as_mapped(
    spec: gpu_call.Problem, arrays: Sequence[Array], number: int
) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Extents, strides in bytes, address and bytes of an element of an operand, or the result, as its tensor map takes them.

    Axes of a batch of one entry for all are left out. Rows, even of one, are apart by a multiple of 16 bytes; an operand without
    elements is never read, and stands for one of some.
    """
    array = arrays[number]
    axes = gpu_call.looped(spec, number)
    shape = tuple(array.shape[axis] for axis in axes)
    step = gpu_call.ALIGNMENT
    if 0 in shape:
        place = gpu_call.address(arrays[-1]) // step * step
        return (1,) * (len(axes) - 1) + (step,), (step * array.itemsize,) * len(axes), place, array.itemsize
    strides = tuple(
        array.strides[axis] if array.shape[axis] > 1 else -(-array.strides[axis] // step) * step for axis in axes
    )
    return shape, strides, gpu_call.address(array), array.itemsize
