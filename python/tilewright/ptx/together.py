# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What threads do together in PTX: barriers, fences, shuffles, and matrix instructions of a warp or four."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.ptx.function import LLVM_TYPES, SHAPE, Function, Handler, Rows, bits_of, unknown
from tilewright.ptx.memory import space
from tilewright.ptx.parse import Instruction, Operand

_RESULT = {"f64": "i64"}


def _performs(name: str) -> Handler:
    """An operation without operands and results."""

    def handle(function: Function, _one: Instruction) -> None:
        function.perform(name, "void", ())

    return handle


def _numbered(name: str) -> Handler:
    """An operation whose operands are numbers of 32 bits."""

    def handle(function: Function, one: Instruction) -> None:
        function.perform(name, "void", [("i32", function.read(one, each, 32)) for each in one.operands])

    return handle


def _barrier(function: Function, one: Instruction) -> None:
    """For bar and barrier, .sync or .arrive, of all threads of the block or of some."""
    how = "arrive" if one.has("arrive") else "sync"
    what = "all" if len(one.operands) == 1 else "count"
    numbers = [("i32", function.read(one, each, 32)) for each in one.operands]
    function.perform(f"barrier.cta.{how}.{what}", "void", numbers)


def _cluster_barrier(function: Function, one: Instruction) -> None:
    how = "wait" if one.has("wait") else "arrive.relaxed" if one.has("relaxed") else "arrive"
    function.perform(f"barrier.cluster.{how}", "void", ())


def _fence(function: Function, one: Instruction) -> None:
    name = one.name
    if one.has("proxy") and any(part.startswith("async") for part in one.parts):
        name = "fence.proxy.async"
    elif one.has("mbarrier_init"):
        name = "fence.mbarrier_init"
    function.perform(name, "void", ())


def _into_both(function: Function, one: Instruction, to: Operand, value: str) -> None:
    """Puts a result of 32 bits and a predicate where an instruction says."""
    places = to if isinstance(to, tuple) else (to,)
    for number, (place, bits) in enumerate(zip(places, (32, 1), strict=False)):
        function.write(one, place, function.value(f"extractvalue {{ i32, i1 }} {value}, {number}"), bits)


def _elect(function: Function, one: Instruction) -> None:
    to, mask = one.operands
    value = function.perform("elect.sync", "{ i32, i1 }", [("i32", function.read(one, mask, 32))])
    _into_both(function, one, to, value)


def _shuffle(function: Function, one: Instruction) -> None:
    """shfl.sync.MODE.b32 to|inside, value, other, bounds, mask."""
    to, value, other, bounds, mask = one.operands
    numbers = [("i32", function.read(one, each, 32)) for each in (mask, value, other, bounds)]
    found = function.perform(f"shfl.sync.{one.parts[2]}.i32p", "{ i32, i1 }", numbers)
    _into_both(function, one, to, found)


def _vote(function: Function, one: Instruction) -> None:
    to, of, mask = one.operands
    how = one.parts[2]
    result, bits = ("i32", 32) if how == "ballot" else ("i1", 1)
    numbers = [("i32", function.read(one, mask, 32)), ("i1", function.read(one, of, 1))]
    function.write(one, to, function.perform(f"vote.sync.{how}", result, numbers), bits)


def _reduce(function: Function, one: Instruction) -> None:
    to, of, mask = one.operands
    numbers = [("i32", function.read(one, mask, 32)), ("i32", function.read(one, of, 32))]
    function.write(one, to, function.perform(f"redux.sync.{one.parts[2]}.{one.parts[-1]}", "i32", numbers), 32)


def _active(function: Function, one: Instruction) -> None:
    """activemask: threads take turns here, and all of a warp are in step as far as anybody can tell."""
    function.write(one, one.operands[0], "-1", 32)


def _values(
    function: Function, one: Instruction, operands: Sequence[Operand], kinds: Sequence[str]
) -> list[tuple[str, str]]:
    """Registers of several vectors, one after another, as operands of the emulator's."""
    found = []
    for operand, kind in zip(operands, kinds, strict=True):
        for each in operand if isinstance(operand, tuple) else (operand,):
            found.append((kind, function.read(one, each, int(kind[1:]))))
    return found


def _spread(function: Function, one: Instruction, to: Operand, kind: str, value: str, result: str) -> None:
    """A structure's fields into registers."""
    for number, each in enumerate(to if isinstance(to, tuple) else (to,)):
        part = function.value(f"extractvalue {result} {value}, {number}")
        function.write(one, each, part, int(kind[1:]))


def _structure(kind: str, to: Operand) -> str:
    return "{ " + ", ".join([kind] * (len(to) if isinstance(to, tuple) else 1)) + " }"


def _multiply(function: Function, one: Instruction) -> None:
    """mma.sync.aligned.mMnNkK.row.col.TYPES to, a, b, c."""
    if not one.name.startswith("mma.sync.aligned.m") or (one.has("m8n8k4") and not one.has("f64")):
        raise unknown(one)
    to, *operands = one.operands
    types = [part for part in one.parts if part in LLVM_TYPES or part in ("e4m3", "e5m2")]
    kinds = [_RESULT.get(each, "i32") for each in types[-4:]]
    result = _structure(kinds[0], to)
    given = _values(function, one, operands[:3], kinds[1:])
    name = one.name.replace("mma.sync.aligned.", "mma.").replace("kind::f8f6f4.", "")
    _spread(function, one, to, kinds[0], function.perform(name, result, given), result)


def _of_matrices(one: Instruction) -> str:
    """The operation's name: assemblers take its suffixes in several orders."""
    count = next(part for part in one.parts if part in ("x1", "x2", "x4"))
    return f"{one.parts[0]}.sync.aligned.m8n8.{count}{'.trans' if one.has('trans') else ''}.shared.b16"


def _load_matrices(function: Function, one: Instruction) -> None:
    """Shared memory into registers, eight rows of eight a matrix."""
    to, address = one.operands
    result = _structure("i32", to)
    pointer = function.pointer(one, address, "shared" if space(one) else "")
    _spread(function, one, to, "i32", function.perform(_of_matrices(one), result, [("ptr", pointer)]), result)


def _store_matrices(function: Function, one: Instruction) -> None:
    address, of = one.operands
    pointer = function.pointer(one, address, "shared" if space(one) else "")
    kinds = ["i32"]
    # The name alone does not tell how many registers follow: one operation has one number of them.
    function.perform(_of_matrices(one), "void", [("ptr", pointer), *_values(function, one, [of], kinds)])


def _multiply_groups(function: Function, one: Instruction) -> None:
    """wgmma.mma_async sums, a, b, add?, signs, transpositions: sums are taken and given in the same registers."""
    if one.has("satfinite") or re.search(r"\.m64n\d+k\d+\.", one.name) is None:
        raise unknown(one)
    sums, a, b, adds, *immediate = one.operands
    given = _values(function, one, [sums], ["i32"])
    if isinstance(a, tuple):
        given += _values(function, one, [a], ["i32"])
    else:
        given.append(("i64", function.read(one, a, 64)))
    given.append(("i64", function.read(one, b, 64)))
    given.append(("i32", function.resized(function.read(one, adds, 1), 1, 32)))
    given += [("i32", function.read(one, each, 32)) for each in immediate]
    result = _structure("i32", sums)
    name = f"{one.name}.{'registers' if isinstance(a, tuple) else 'memory'}"
    _spread(function, one, sums, "i32", function.perform(name, result, given), result)


def _wait_groups(function: Function, one: Instruction) -> None:
    function.perform("wgmma.wait_group", "void", [("i64", function.read(one, one.operands[0], bits_of("i64")))])


def _follow(function: Function, one: Instruction) -> None:
    """griddepcontrol: what it waits for has ended here, but what a thread did before counts."""
    action = "wait" if one.has("wait") else "launch.dependents"
    function.perform(f"griddepcontrol.{action}", "void", ())


_FENCES = (
    "acq_rel sc acquire release cta cluster gpu sys proxy alias async global shared::cta shared::cluster mbarrier_init "
    "sync_restrict::shared::cta sync_restrict::shared::cluster async::generic async.shared::cta"
)
_TYPES = f"sync aligned row col satfinite kind::f8f6f4 {SHAPE} f16 bf16 tf32 f32 f64 e4m3 e5m2 s8 u8 s32"
_MATRICES = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"
ROWS: Rows = {
    "bar": (_barrier, "cta sync arrive"),
    "barrier": (_barrier, "cta sync arrive aligned"),
    "bar.warp.sync": (_numbered("bar.warp.sync"), ""),
    "barrier.cluster": (_cluster_barrier, "arrive wait release acquire relaxed aligned"),
    "membar": (_fence, "cta gl sys"),
    "fence": (_fence, _FENCES),
    "elect.sync": (_elect, ""),
    "shfl.sync": (_shuffle, "up down bfly idx b32"),
    "vote.sync": (_vote, "all any uni ballot pred b32"),
    "redux.sync": (_reduce, "add min max and or xor u32 s32 b32"),
    "activemask": (_active, "b32"),
    "mma": (_multiply, _TYPES),
    "ldmatrix": (_load_matrices, _MATRICES),
    "stmatrix": (_store_matrices, _MATRICES),
    "wgmma.fence": (_performs("wgmma.fence"), "sync aligned"),
    "wgmma.mma_async": (_multiply_groups, _TYPES),
    "wgmma.commit_group": (_performs("wgmma.commit_group"), "sync aligned"),
    "wgmma.wait_group": (_wait_groups, "sync aligned"),
    "setmaxnreg": (_numbered("setmaxnreg"), "inc dec sync aligned u32"),
    "griddepcontrol": (_follow, "launch_dependents wait"),
    "nanosleep": (_numbered("nanosleep"), "u32"),
}
"""What instructions do, by the beginning of their names, and the suffixes that are read behind it."""
