# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where warp groups and the blocks of a cluster meet, how they share registers, and how they follow the kernels before.

Source: the PTX ISA manual, "barrier", "barrier.cluster", "setmaxnreg" and "griddepcontrol".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilewright.build.index import Index, add
from tilewright.codegen.gpu import shared
from tilewright.mlir import ir
from tilewright.mlir.dialects import nvvm
from tilewright.schedules.gpu.warpgroup import WARP_GROUP

REGISTERS: Mapping[int, tuple[int, int]] = MappingProxyType({1: (40, 216), 2: (40, 232), 3: (32, 160), 4: (24, 112)})
"""Of a thread that copies, and of one that multiplies, by consumers: all that there are; of one consumer, half of them."""
MORE_REGISTERS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {1: (56, 200), 2: (56, 224), 3: (56, 152), 4: (56, 104)}
)
"""The same where threads that copy compute where each piece lies."""
_FIRST_TURN = 1
"""The named barriers of consumers that multiply in turns are this one and those after it; number 0 is that of all threads."""
_COPIERS = 3
"""The named barrier of the group that copies."""
_CONSUMERS = 4
"""The named barrier of all consumers of a block."""
_ONE_CONSUMER = 5
"""The named barriers of each consumer are this one and those after it."""


def set_registers(action: str, count: int) -> None:
    """Gives registers back, or takes those that others have given back."""
    nvvm.setmaxregister(count, ir.Attribute.parse(f"#nvvm<action {action}>"))


def meet_cluster() -> None:
    """All threads of the cluster meet; what they did before is then done."""
    nvvm.cluster_arrive()
    nvvm.cluster_wait()


def begin_cluster() -> None:
    """All threads of the cluster meet when barrier objects have been initialized and fenced: nothing else that was done is known then.

    Nobody has to wait for accesses to memory.
    """
    nvvm.cluster_arrive_relaxed()
    nvvm.cluster_wait()


def follow_kernels() -> None:
    """Waits for the kernels before on the stream, whose results are known then, and lets the next one begin meanwhile.

    Where a launch says that it may begin before those before it have ended, what a thread does up to here is done while they end. It
    touches no memory that they may. Of other launches nothing is waited for.
    Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
    """
    for action in ("wait", "launch_dependents"):
        nvvm.griddepcontrol(ir.Attribute.parse(f"#nvvm<grid_dep_action {action}>"))


def elected() -> ir.Value:
    """Whether a thread is the one that does something for its warp, all of whose threads are here: always the same one.

    The assembler then knows that it is alone: what copies take needs no loop over the threads' values.
    """
    return nvvm.elect_sync(ir.IntegerType.get_signless(1))


def await_turn(consumer: Index) -> None:
    """Waits until another consumer has let this one go on."""
    nvvm.barrier(
        None, barrier_id=shared.as_i32(add(consumer, _FIRST_TURN)), number_of_threads=shared.i32(2 * WARP_GROUP)
    )


def give_turn(consumer: Index) -> None:
    """Lets a consumer go on: code for another one."""
    nvvm.barrier_arrive(shared.i32(2 * WARP_GROUP), barrier_id=shared.as_i32(add(consumer, _FIRST_TURN)))


def meet_warp() -> None:
    """The threads of a warp meet."""
    nvvm.bar_warp_sync(shared.i32(-1))


def meet_copiers() -> None:
    """The threads of the group that copies meet."""
    nvvm.barrier(None, barrier_id=shared.i32(_COPIERS), number_of_threads=shared.i32(WARP_GROUP))


def meet_consumers(count: int) -> None:
    """So many consumers of a block meet."""
    nvvm.barrier(None, barrier_id=shared.i32(_CONSUMERS), number_of_threads=shared.i32(count * WARP_GROUP))


def meet_multiplier() -> None:
    """The one consumer of a block and the warp meet that begins its products: what that has waited for is then known."""
    threads = WARP_GROUP + WARP_GROUP // 4
    nvvm.barrier(None, barrier_id=shared.i32(_CONSUMERS), number_of_threads=shared.i32(threads))


def meet_consumer(consumer: Index) -> None:
    """The threads of one consumer meet."""
    nvvm.barrier(None, barrier_id=shared.as_i32(add(consumer, _ONE_CONSUMER)), number_of_threads=shared.i32(WARP_GROUP))
