# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's asynchronous copies, and the barrier objects that count them."""

from __future__ import annotations

from tilewright.ptx.function import Function, Handler, Rows, unknown
from tilewright.ptx.memory import space
from tilewright.ptx.parse import Address, Instruction

_MAP_BYTES = 128


def _copy(function: Function, one: Instruction) -> None:
    """cp.async.CACHE.shared.global [to], [from], bytes, bytes that are read: all, where that is not said."""
    to, of, size, *rest = one.operands
    pointers = [("ptr", function.pointer(one, to, "shared")), ("ptr", function.pointer(one, of, "global"))]
    # The last operand may be a cache policy; one before it says how many bytes are read, or, as a predicate, that none is.
    rest = rest[: len(rest) - one.has("L2::cache_hint")]
    if rest and function.is_predicate(rest[0]):
        ignored = function.read(one, rest[0], 1)
        read = function.value(f"select i1 {ignored}, i32 0, i32 {function.read(one, size, 32)}")
    else:
        read = function.read(one, rest[0] if rest else size, 32)
    cache = one.parts[2]
    function.perform(
        f"cp.async.{cache}.shared.global.{int(str(size), 0)}",
        "void",
        [*pointers, ("i32", read)],
    )


def _performs(name: str) -> Handler:
    def handle(function: Function, one: Instruction) -> None:
        function.perform(name, "void", [("i32", function.read(one, each, 32)) for each in one.operands])

    return handle


def _copy_tensor(function: Function, one: Instruction) -> None:
    """A box of a tensor, or of patches of images, into the shared memory of the block or of several; or back."""
    axes = next(part for part in one.parts if part[0].isdigit())
    if one.name.startswith("cp.async.bulk.tensor") and one.parts.index("global") < next(
        (number for number, part in enumerate(one.parts) if part.startswith("shared")), len(one.parts)
    ):
        _store_box(function, one, axes)
        return
    to, tensor, barrier, *rest = one.operands
    several, of_patches = one.has("multicast::cluster"), one.has("im2col")
    offsets = rest.pop(0) if of_patches else ()
    # One for each axis of pixels: the others are of channels and images.
    if not isinstance(offsets, tuple) or (of_patches and len(offsets) != int(axes[0]) - 2):
        raise unknown(one)
    mask = function.read(one, rest[0], 16) if several else "0"
    function.perform(
        f"cp.async.bulk.tensor.g2s.{'im2col' if of_patches else 'tile'}.{axes}",
        "void",
        [
            ("ptr", function.pointer(one, to, "shared")),
            ("ptr", function.pointer(one, barrier, "shared")),
            *_box(function, one, tensor),
            *(("i16", function.read(one, each, 16)) for each in offsets),
            ("i16", mask),
            ("i64", "0"),
            ("i1", str(several).lower()),
            ("i1", "false"),
        ],
    )


def _store_box(function: Function, one: Instruction, axes: str) -> None:
    if one.has("im2col"):  # Stores have a mode of another name.
        raise unknown(one)
    tensor, of = one.operands[:2]
    pointer = ("ptr", function.pointer(one, of, "shared"))
    function.perform(f"cp.async.bulk.tensor.s2g.tile.{axes}", "void", [pointer, *_box(function, one, tensor)])


def _box(function: Function, one: Instruction, tensor: object) -> list[tuple[str, str]]:
    """The map and the coordinates."""
    if not isinstance(tensor, Address):
        raise unknown(one)
    map_ = function.pointer(one, Address(tensor.base, tensor.offset), "", _MAP_BYTES)
    return [("ptr", map_), *(("i32", function.read(one, each, 32)) for each in tensor.coordinates)]


def _barrier_pointer(function: Function, one: Instruction, place: int) -> tuple[str, str]:
    return "ptr", function.pointer(one, one.operands[place], space(one))


def _scoped(one: Instruction) -> str:
    """An operation's scope as LLVM's names of intrinsics have it; it is the block where it is not said."""
    return f".scope.{'cluster' if one.has('cluster') else 'cta'}"


def _initialize(function: Function, one: Instruction) -> None:
    count = ("i32", function.read(one, one.operands[1], 32))
    function.perform("mbarrier.init", "void", [_barrier_pointer(function, one, 0), count])


def _invalidate(function: Function, one: Instruction) -> None:
    function.perform("mbarrier.inval", "void", [_barrier_pointer(function, one, 0)])


def _arrive(function: Function, one: Instruction) -> None:
    """mbarrier.arrive to, [barrier], count; with .expect_tx, bytes in place of the count."""
    to, *rest = one.operands
    if isinstance(to, Address):  # Without a state.
        to, rest = "_", list(one.operands)
    place = one.operands.index(rest[0])
    numbers = [("i32", function.read(one, each, 32)) for each in rest[1:2]]
    name = ("mbarrier.arrive.expect.tx" if one.has("expect_tx") else "mbarrier.arrive") + _scoped(one)
    state = function.perform(name, "i64", [_barrier_pointer(function, one, place), *(numbers or [("i32", "1")])])
    function.write(one, to, state, 64)


def _expect(function: Function, one: Instruction) -> None:
    count = ("i32", function.read(one, one.operands[1], 32))
    function.perform("mbarrier.expect.tx", "void", [_barrier_pointer(function, one, 0), count])


def _wait(function: Function, one: Instruction) -> None:
    """test_wait or try_wait, of a parity or of a state."""
    to = one.operands[0]
    barrier = _barrier_pointer(function, one, 1)
    if one.has("parity"):
        given = [barrier, ("i32", function.read(one, one.operands[2], 32))]
        found = function.perform(f"mbarrier.try.wait.parity{_scoped(one)}", "i1", given)
    else:
        given = [barrier, ("i64", function.read(one, one.operands[2], 64))]
        found = function.perform(f"mbarrier.try.wait{_scoped(one)}", "i1", given)
    function.write(one, to, found, 1)


def _arrive_behind_copies(function: Function, one: Instruction) -> None:
    name = "cp.async.mbarrier.arrive" + (".noinc" if one.has("noinc") else "")
    function.perform(name, "void", [_barrier_pointer(function, one, 0)])


_BARRIERS = "shared shared::cta b64"
_COPIED = "shared shared::cta global L2::cache_hint L2::64B L2::128B L2::256B"
_BOXES = (
    "1d 2d 3d 4d 5d shared::cta shared::cluster global tile im2col mbarrier::complete_tx::bytes multicast::cluster bulk_group "
    "L2::cache_hint cta_group::1"
)
ROWS: Rows = {
    "cp.async.ca": (_copy, _COPIED),
    "cp.async.cg": (_copy, _COPIED),
    "cp.async.commit_group": (_performs("cp.async.commit.group"), ""),
    "cp.async.wait_group": (_performs("cp.async.wait.group"), ""),
    "cp.async.wait_all": (_performs("cp.async.wait.all"), ""),
    "cp.async.mbarrier.arrive": (_arrive_behind_copies, f"noinc {_BARRIERS}"),
    "cp.async.bulk.tensor": (_copy_tensor, _BOXES),
    "cp.async.bulk.commit_group": (_performs("cp.async.bulk.commit.group"), ""),
    "cp.async.bulk.wait_group": (_performs("cp.async.bulk.wait.group"), ""),
    "cp.async.bulk.wait_group.read": (_performs("cp.async.bulk.wait.group.read"), ""),
    "mbarrier.init": (_initialize, _BARRIERS),
    "mbarrier.inval": (_invalidate, _BARRIERS),
    "mbarrier.arrive": (_arrive, f"expect_tx release cta cluster shared::cluster {_BARRIERS}"),
    "mbarrier.expect_tx": (_expect, f"relaxed cta cluster shared::cluster {_BARRIERS}"),
    "mbarrier.test_wait": (_wait, f"parity acquire cta cluster {_BARRIERS}"),
    "mbarrier.try_wait": (_wait, f"parity acquire cta cluster {_BARRIERS}"),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
