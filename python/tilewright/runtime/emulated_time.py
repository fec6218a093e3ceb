# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An estimate of how long a kernel takes on a Hopper GPU: a model of a multiprocessor, driven by the emulator's trace of a cluster.

Warps go through what they did in the emulator, and wait for each other, for tensor cores, shared memory and the L2 cache. Rates are
those of the model of sizes (`schedules.gpu.warpgroup_time`), latencies published ones; the clock is the one number that was fitted, to
one published kernel. Not modeled: memory behind the L2 cache, what the assembler makes of PTX, dependences within a warp but for those
of `_LOADS`, and power.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from tilewright.runtime.emulated_gpu import EmulationError, SharedCount
from tilewright.schedules.gpu.warpgroup_time import (
    COLUMNS_A_CYCLE,
    DEPTH_BYTES,
    L2_BYTES,
    L2_BYTES_EACH,
    SHARED_BYTES,
    resident,
)

_SCHEDULERS = 4
"""Of a multiprocessor, each with its own warps and tensor core, and an instruction a cycle. Source: "NVIDIA H100 Tensor Core GPU
Architecture"."""
_BETWEEN = 2
"""An estimate: cycles from an instruction of a warp to its next one."""
_MACHINE_CODE = 0.3
"""Instructions of machine code for one of PTX. An estimate, by kernel 1 of fast.cu, which has no other limit."""
_AT_ONCE = 32
"""Instructions of a warp that are looked at together."""
_SHARED_LATENCY, _L2_LATENCY = 29, 263
"""Cycles of a load. Source: W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking",
2024, table of latencies, H100."""
_FAR_LATENCY = 180
"""Cycles to another multiprocessor of the cluster. Source: the same, distributed shared memory."""
_COPY_LATENCY = 600
"""An estimate: of a box copy, from the instruction to the barrier object, above its bytes."""
_PRODUCT_LATENCY = 60
"""An estimate: from a tensor core's last cycle for a wgmma to the end of a wait for it."""
_MEETING = 20
"""An estimate: from the last arrival at a barrier to the next instruction of those that wait."""
_SECTOR = 32
_WGMMA_WORK = COLUMNS_A_CYCLE * DEPTH_BYTES
"""Columns times bytes along K that a warp's tensor core multiplies by its 16 rows a cycle."""
_MMA_WORK = 322
"""Products of 16-bit elements a cycle by mma.sync, 63 % of what wgmma reaches. Source: W. Luo et al., as above."""
_LOADS = 8
"""An estimate: loads that a warp has under way at once."""
PROCESSORS = resident(1)
"""Of an H100 SXM5."""
CLOCK_GHZ = 1.57
"""Fitted: with it kernel 11 of fast.cu takes as long as its author says (``test/outside/test_cuda_time.py``). A card that multiplies
all the time is held below its 1.83 GHz by its power."""


@dataclass(slots=True)
class _Processor:
    """When what a multiprocessor has is free."""

    issue: list[float] = field(default_factory=lambda: [0.0] * _SCHEDULERS)
    tensor: list[float] = field(default_factory=lambda: [0.0] * _SCHEDULERS)
    shared: float = 0.0
    l2: float = 0.0


@dataclass(slots=True)
class _Meeting:
    """A generation of a barrier: who is still to come, and when the last one came."""

    missing: int
    time: float = 0.0
    waiting: list[_Warp] = field(default_factory=list)


@dataclass(slots=True)
class _Groups:
    """Asynchronous operations of a warp: when those of each committed group end, and of the open one."""

    committed: deque[float] = field(default_factory=deque)
    open: float = 0.0

    def commit(self) -> None:
        self.committed.append(max(self.open, self.committed[-1] if self.committed else 0.0))
        self.open = 0.0

    def wait(self, left: int) -> float:
        """When no more than so many groups are under way."""
        end = 0.0
        while len(self.committed) > left:
            end = self.committed.popleft()
        return end


@dataclass(slots=True, eq=False)
class _Warp:
    number: int
    home: _Processor
    others: Sequence[_Processor]
    events: Sequence[tuple[int, int, int]]
    meetings: Mapping[int, _Meeting]
    at: int = 0
    left: int = 0  # Of the instructions that are being executed.
    time: float = 0.0
    loads: deque[float] = field(default_factory=deque)
    products: _Groups = field(default_factory=_Groups)
    copies: _Groups = field(default_factory=_Groups)
    stores: _Groups = field(default_factory=_Groups)
    stores_read: _Groups = field(default_factory=_Groups)

    @property
    def scheduler(self) -> int:
        return self.number % _SCHEDULERS

    def settle(self) -> None:
        """Waits for all loads."""
        while self.loads:
            self.time = max(self.time, self.loads.popleft())


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a launch would take, as the model has it.

    Attributes:
        cycles: Of the whole launch.
        seconds: The same at the model's clock.
        busy: Of the cycles of a multiprocessor's blocks, the part in which its tensor cores, shared memory, way from the L2 cache, and
            schedulers work.
    """

    cycles: float
    seconds: float
    busy: Mapping[str, float]


def estimate(
    events: np.ndarray[Any, Any],
    counts: Sequence[SharedCount],
    *,
    warps: int,
    blocks: int,
    cluster: int,
    resident: int = 1,
) -> Estimate:
    """How long a launch would take, of whose first cluster there is a trace.

    Args:
        events: The trace.
        counts: What its instructions move.
        warps: Of a block.
        blocks: Of the launch.
        cluster: Blocks of a cluster.
        resident: Blocks that a multiprocessor has at the same time.

    Raises:
        EmulationError: The trace has meetings that somebody waits for and that not all come to.
    """
    clusters = max(1, ceil(blocks / cluster))
    places = PROCESSORS // cluster
    resident = min(resident, ceil(clusters / places))
    products = int((events["kind"] == _MULTIPLIED).sum())
    kinds = np.isin(events["kind"], (_LOADED_BOX, _LOADED_TO_OTHER, _COPIED))
    brought = float(events["amount"][kinds].sum()) / products if products else 0.0
    machine = _Machine(counts, min(PROCESSORS, clusters * cluster), brought)
    processors = [_Processor() for _ in range(cluster)]
    machine.run(_warps(events, processors, warps, resident))
    rounds = ceil(clusters / (places * resident))
    busy = {name: time / machine.end if machine.end else 0.0 for name, time in machine.worked.items()}
    scale = {"tensor cores": _SCHEDULERS, "issue": _SCHEDULERS}
    cycles = rounds * machine.end
    return Estimate(
        cycles,
        cycles / CLOCK_GHZ * 1e-9,
        {name: value / cluster / scale.get(name, 1) for name, value in busy.items()},
    )


def _warps(events: np.ndarray[Any, Any], processors: list[_Processor], warps: int, resident: int) -> list[_Warp]:
    """The warps of so many clusters on the same multiprocessors, each with meetings of its own."""
    made: list[_Warp] = []
    triples: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    expected: dict[int, int] = defaultdict(int)
    for warp, kind, key, amount in events.tolist():
        triples[warp].append((kind, key, amount))
        if kind in (_LOADED_BOX, _LOADED_TO_OTHER, _ARRIVED):
            expected[key] += 1
    for copy in range(resident):
        meetings = {key: _Meeting(count) for key, count in expected.items()}
        for warp, own in triples.items():
            home = processors[warp // warps]
            others = [each for each in processors if each is not home]
            made.append(_Warp(warp % warps + copy * warps, home, others, own, meetings))
    return made


class _Machine:
    """Everything that warps share."""

    def __init__(self, counts: Sequence[SharedCount], active: int, brought: float = 0.0) -> None:
        self.end = 0.0
        self.worked: dict[str, float] = {"tensor cores": 0.0, "shared memory": 0.0, "L2 cache": 0.0, "issue": 0.0}
        self._moves = {each.site: (each.passes / each.executions, each.is_global) for each in counts}
        self._l2_rate = min(L2_BYTES_EACH, L2_BYTES / active)
        self._brought = brought  # Bytes that copies write to shared memory for a wgmma of a warp.
        self._pushed = 0
        self._queue: list[tuple[float, int, _Warp]] = []

    def run(self, warps: Sequence[_Warp]) -> None:
        """Until all have ended."""
        for warp in warps:
            self._push(warp)
        while self._queue:
            _, _, warp = heapq.heappop(self._queue)
            if warp.at == len(warp.events):
                self.end = max(self.end, warp.time)
                continue
            kind, key, amount = warp.events[warp.at]
            warp.at += 1
            if _EVENTS[kind](self, warp, key, amount):
                self._push(warp)
        if any(warp.at < len(warp.events) for warp in warps):
            raise EmulationError(
                "the model's warps wait for what the trace does not have: threads other than the first of a warp take part in it",
                where="emulated time",
                expected="barriers at which the first threads of warps arrive",
            )

    def _push(self, warp: _Warp) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (warp.time, self._pushed, warp))

    def _through(self, what: str, free: float, time: float, cycles: float) -> float:
        """When something that is free from some time on has worked so many cycles for a request."""
        self.worked[what] += cycles
        return max(free, time) + cycles

    def _shared(self, home: _Processor, time: float, bytes_: float) -> float:
        home.shared = self._through("shared memory", home.shared, time, bytes_ / SHARED_BYTES)
        return home.shared

    def _l2(self, home: _Processor, time: float, bytes_: float) -> float:
        home.l2 = self._through("L2 cache", home.l2, time, bytes_ / self._l2_rate)
        return home.l2

    def issue(self, warp: _Warp, _key: int, amount: int) -> bool:
        """Instructions, some at a time, so that others take turns."""
        if amount >= _LOADS:
            warp.settle()
        warp.left = warp.left or amount
        now = min(warp.left, _AT_ONCE)
        free = warp.home.issue[warp.scheduler]
        warp.home.issue[warp.scheduler] = self._through("issue", free, warp.time, _MACHINE_CODE * now)
        warp.time = max(warp.home.issue[warp.scheduler], warp.time + _BETWEEN * _MACHINE_CODE * now)
        warp.left -= now
        if warp.left:
            warp.at -= 1
        return True

    def access(self, warp: _Warp, key: int, amount: int) -> bool:
        """Loads and stores: a warp goes on behind them, with so many loads at once."""
        passes, is_global = self._moves[key]
        if is_global:
            end = self._l2(warp.home, warp.time, passes * _SECTOR) + _L2_LATENCY
        else:
            end = self._shared(warp.home, warp.time, passes * SHARED_BYTES) + _SHARED_LATENCY
        warp.time = max(warp.time, end - (_L2_LATENCY if is_global else _SHARED_LATENCY) - _AT_ONCE)
        if amount:
            warp.loads.append(end)
            if len(warp.loads) > _LOADS:
                warp.time = max(warp.time, warp.loads.popleft())
        return True

    def multiply(self, warp: _Warp, key: int, amount: int) -> bool:
        """wgmma, by the warp's tensor core, which reads shared memory meanwhile."""
        warp.settle()
        cycles = amount / _WGMMA_WORK
        moved = (key + self._brought) / SHARED_BYTES
        self.worked["shared memory"] += moved
        free = self._through("tensor cores", warp.home.tensor[warp.scheduler], warp.time, cycles)
        # The four warps of a group share the way out of shared memory.
        warp.home.tensor[warp.scheduler] = free + max(0.0, _SCHEDULERS * moved - cycles)
        warp.products.open = warp.home.tensor[warp.scheduler] + _PRODUCT_LATENCY
        return True

    def multiply_now(self, warp: _Warp, _key: int, amount: int) -> bool:
        warp.settle()
        free = warp.home.tensor[warp.scheduler]
        warp.home.tensor[warp.scheduler] = self._through("tensor cores", free, warp.time, amount / _MMA_WORK)
        warp.time = max(warp.time + _BETWEEN, warp.home.tensor[warp.scheduler] - _SHARED_LATENCY)
        return True

    def load_box(self, warp: _Warp, key: int, amount: int) -> bool:
        end = self._l2(warp.home, warp.time, amount) + _COPY_LATENCY
        self._arrive(warp.meetings[key], end)
        return True

    def load_to_other(self, warp: _Warp, key: int, _amount: int) -> bool:
        """The part of a multicast that the L2 cache has given already."""
        self._arrive(warp.meetings[key], warp.home.l2 + _COPY_LATENCY)
        return True

    def store_box(self, warp: _Warp, _key: int, amount: int) -> bool:
        warp.settle()
        read = self._shared(warp.home, warp.time, amount) + _SHARED_LATENCY
        warp.stores_read.open = max(warp.stores_read.open, read)
        warp.stores.open = max(warp.stores.open, self._l2(warp.home, warp.time, amount) + _L2_LATENCY)
        return True

    def commit_stores(self, warp: _Warp, _key: int, _amount: int) -> bool:
        warp.stores.commit()
        warp.stores_read.commit()
        return True

    def wait_for_stores(self, warp: _Warp, key: int, amount: int) -> bool:
        warp.time = max(warp.time, (warp.stores_read if key else warp.stores).wait(amount))
        return True

    def arrive(self, warp: _Warp, key: int, amount: int) -> bool:
        warp.settle()
        self._arrive(warp.meetings[key], warp.time + (_FAR_LATENCY if amount else 0))
        return True

    def wait(self, warp: _Warp, key: int, _amount: int) -> bool:
        meeting = warp.meetings.get(key)
        if meeting is not None and meeting.missing:
            meeting.waiting.append(warp)
            return False
        if meeting is not None:
            warp.time = max(warp.time, meeting.time + _MEETING)
        return True

    def _arrive(self, meeting: _Meeting, time: float) -> None:
        meeting.missing -= 1
        meeting.time = max(meeting.time, time)
        if meeting.missing:
            return
        for warp in meeting.waiting:
            warp.time = max(warp.time, meeting.time + _MEETING)
            self._push(warp)
        meeting.waiting.clear()

    def copy(self, warp: _Warp, _key: int, amount: int) -> bool:
        end = self._l2(warp.home, warp.time, amount) + _L2_LATENCY
        warp.copies.open = max(warp.copies.open, end)
        return True


def _commits(name: str) -> Callable[[_Machine, _Warp, int, int], bool]:
    def handle(_machine: _Machine, warp: _Warp, _key: int, _amount: int) -> bool:
        getattr(warp, name).commit()
        return True

    return handle


def _waits(name: str) -> Callable[[_Machine, _Warp, int, int], bool]:
    def handle(_machine: _Machine, warp: _Warp, _key: int, amount: int) -> bool:
        warp.time = max(warp.time, getattr(warp, name).wait(amount))
        return True

    return handle


_EVENTS: Sequence[Callable[[_Machine, _Warp, int, int], bool]] = (
    _Machine.issue,
    _Machine.access,
    _Machine.multiply,
    _commits("products"),
    _waits("products"),
    _Machine.multiply_now,
    _Machine.load_box,
    _Machine.load_to_other,
    _Machine.store_box,
    _Machine.commit_stores,
    _Machine.wait_for_stores,
    _Machine.arrive,
    _Machine.wait,
    _Machine.copy,
    _commits("copies"),
    _waits("copies"),
)
"""What events do, by their kinds: each says whether the warp can go on."""
_MULTIPLIED, _LOADED_BOX, _LOADED_TO_OTHER, _ARRIVED, _COPIED = 2, 6, 7, 11, 13
