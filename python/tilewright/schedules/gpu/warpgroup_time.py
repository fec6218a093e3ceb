# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a product would take with some sizes of strategy `warpgroup`: a prediction from counted floors, by which sizes are compared.

Counted are cycles of the tensor cores, bytes that pass from the L2 cache to a multiprocessor and through its shared memory, bytes of
memory, and rounds of tiles. What a tile takes besides its steps is fitted to 5,800 measurements on an H200, so that the sizes that are
predicted to be the fastest are nearly so: docs/reference/card_results.md says how near.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.schedules.gpu.warpgroup import ROWS, SUM_BYTES, WARP_GROUP, WarpGroupTile

Tile = WarpGroupTile | TensorMemoryTile
"""Sizes whose blocks go on from tile to tile."""

DEPTH_BYTES = 32
"""Bytes along K of an instruction."""
COLUMNS_A_CYCLE = 2
"""Of an instruction of 64 rows. Source: NVIDIA's data sheet of the H100 SXM5: 989 TFLOP/s of 16-bit floats, without sparsity, by 132
multiprocessors at 1.83 GHz are 4096 a cycle and multiprocessor; twice as many of 8 bits, half as many of tf32, and so the same cycles
for 32 bytes along K."""
SHARED_BYTES = 128
"""Of shared memory a cycle: 32 banks of 4 bytes. Source: CUDA C++ Programming Guide, "Shared Memory", compute capability 9.0."""
L2_BYTES_EACH, L2_BYTES = 64, 6154
"""From the L2 cache a cycle, to a multiprocessor and to all of them. Source: the model of DeepGEMM for this chip (its
``heuristics/sm90.hpp``): 8 TB/s at 1.3 GHz."""
_COPIED_BYTES = 46
"""Fitted: bytes a cycle that copies bring to a multiprocessor, of the 64 above."""
_PRODUCTS = 1.2
"""Fitted: the tensor cores' time over the data sheet's. ncu has them busy 84 % of the time at 4096³ in bf16."""
_STEP_CYCLES = 240
"""Fitted; the loop of the thread that copies has some 55 instructions a step in the machine code, of one warp."""
_BESIDE_CYCLES, _CLUSTER_CYCLES = 220, -60
"""Fitted: what a step takes more where two blocks share tiles of A, and where they share tiles of B."""
_PAIRS_A_CYCLE = 2 * 32
"""Elements that a warp loads at once of codes in shared memory, a cycle: two by each thread."""
_ISSUED = 4
"""Instructions that a multiprocessor begins a cycle: one of each scheduler."""
_LANES = 32 * _ISSUED
"""Threads whose instructions begin in a cycle."""
_COPY_CYCLES = 900
"""An estimate: from a slot that is empty until what was asked for then is there."""
_LOAD_CYCLES = 600
"""An estimate: until what threads load themselves is there, of what is added to 16 sums of each: so many do so at a time."""
_FETCHED_BYTES = 64
"""An estimate: bytes a cycle of what is added to C, in shared memory by then."""
_LOADED_COLUMNS = 32
"""Columns of 64 rows of sums whose threads have 16 each."""
_PIECE_BYTES, _PIECE_CYCLES = 16, 20
"""Bytes that a thread copies at once of rows that are gathered; and an estimate of the instructions that it takes for them, one a cycle."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What a tile takes besides its steps.

    Attributes:
        tile: Cycles from a tile's last product to the next one's first, without the bytes of C.
        c_bytes: Of C a cycle.
        far_bytes: A cycle of sums from another block's shared memory.
        split: Cycles where two blocks have parts of K: they meet three times, and wait for all that their threads have begun in memory.
        part: Cycles for each further part.
        move: Cycles until sums of a tile that a block leaves in memory are there, or those that it adds are read, without their bytes.
        memory_bytes: From memory a cycle, to a multiprocessor that has a few slots on their way.
        transposed: How many times as long a tile takes to store when columns of instructions are rows of C, whose boxes are 32 bytes wide.
    """

    tile: float = 1000
    c_bytes: float = 64
    far_bytes: float = 32
    split: float = 3000
    part: float = 0
    move: float = 1000
    memory_bytes: float = 24
    transposed: float = 2


@dataclass(frozen=True, slots=True)
class Chip:
    """What multiprocessors have in common.

    Attributes:
        gpcs: How many groups there are of so many multiprocessors; a cluster is in one of them. Chips differ in what is switched off.
        l2_bytes: From the L2 cache a cycle, to all of them.
        memory_bytes: Of memory a cycle.
        ends: What a tile takes besides its steps; estimates where nothing was measured.
    """

    gpcs: Mapping[int, int]
    l2_bytes: float
    memory_bytes: float
    ends: Ends = Ends()

    def resident(self, blocks: int) -> int:
        """Clusters of so many blocks that are on the chip at the same time, a block a multiprocessor."""
        return sum(count * (size // blocks) for size, count in self.gpcs.items())


_CHIP = Chip(
    gpcs=MappingProxyType({16: 6, 18: 2}),
    l2_bytes=L2_BYTES,
    memory_bytes=2623,
    ends=Ends(tile=500, c_bytes=24, far_bytes=2.5, split=2000, part=1800, move=4200, memory_bytes=24, transposed=1),
)
"""Ends are fitted.
Memory: NVIDIA's data sheet of the H200: 4.8 TB/s, at 1.83 GHz. Groups are an assumption. Source: "NVIDIA H100 Tensor Core GPU
Architecture": 8 groups of at most 18, of which 132 are on."""


@dataclass(frozen=True, slots=True)
class Work:
    """A product.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Elements that a sum has.
        batch: Products.
        bytes_in: Of an element of A and B.
        bytes_out: Of an element of C.
        code_bits: Of an element of B where consumers make weights of it in registers; 0 where it is multiplied as it is stored.
        pair_instructions: Those of a thread that make a register of two such elements.
        products: Matrices like B that A is multiplied by, of which one C is made.
        bytes_added: Of all that is read for an element of C when its sums are complete.
        fetchable: Whether something of that has elements of as many bytes as C.
        gathers: Whether threads copy rows of A, which are taken by their numbers.
    """

    m: int
    n: int
    k: int
    batch: int
    bytes_in: int
    bytes_out: int
    code_bits: int = 0
    pair_instructions: int = 0
    products: int = 1
    bytes_added: float = 0
    fetchable: bool = False
    gathers: bool = False

    @property
    def bytes_of_b(self) -> float:
        """Of an element of each B."""
        return self.products * (self.code_bits / 8 or self.bytes_in)

    @property
    def memory_bytes(self) -> float:
        """Of A, B, C and what is added to it, each once."""
        operands = (self.m * self.bytes_in + self.n * self.bytes_of_b) * self.k
        return self.batch * (operands + self.m * self.n * (self.bytes_out + self.bytes_added))


def resident(blocks: int) -> int:
    """Clusters of so many blocks that are on the chip at the same time, a block a multiprocessor."""
    return _CHIP.resident(blocks)


def cycles(work: Work, sizes: WarpGroupTile) -> float:
    """Cycles that a product would take: the longest of what multiprocessors, the L2 cache and memory take, and a tile's end."""
    return cycles_on(_CHIP, work, sizes, _step_cycles(work, sizes))


def cycles_on(chip: Chip, work: Work, sizes: Tile, step: float, *, overlaps: bool = False, added: float = 0) -> float:
    """The same on a chip, where a step over K of a multiprocessor takes `step` cycles.

    Args:
        chip: The chip.
        work: The product.
        sizes: Of its tiles.
        step: Cycles.
        overlaps: Whether a tile is finished while the next one is summed up.
        added: Bytes a cycle at most of sums of others that a multiprocessor adds; 0 for as many as the L2 cache gives.
    """
    tiles = _tiles(work, sizes)
    places = chip.resident(sizes.blocks)
    steps = -(-work.k // (sizes.bk * sizes.split))
    ends = chip.ends
    end = ends.tile + sizes.bm * sizes.bn * work.bytes_out / ends.c_bytes * (ends.transposed if sizes.swapped else 1)
    end += _added_cycles(work, sizes)
    if sizes.split > 1:
        end += ends.split + (sizes.split - 2) * ends.part
        end += work.products * sizes.bm * sizes.bn * SUM_BYTES * (1 / SHARED_BYTES + 1 / ends.far_bytes)
    rounds = -(-tiles // places)
    # Sums of parts of K lie where the next tile's would be copied to: nothing goes on meanwhile.
    if overlaps and sizes.split == 1:
        all_rounds = rounds * max(steps * step, end) + min(steps * step, end)
    else:
        all_rounds = rounds * (steps * step + end)
    processors = _streamed_cycles(chip, work, sizes, step, end, added) if sizes.streamed else all_rounds
    active = (places if sizes.streamed else min(tiles, places)) * sizes.blocks
    memory = work.memory_bytes / min(chip.memory_bytes, ends.memory_bytes * active)
    read = traffic(work, sizes) + work.batch * work.m * work.n * work.bytes_added
    return max(processors, end + read / chip.l2_bytes, end + memory)


def _added_cycles(work: Work, sizes: Tile) -> float:
    """Cycles that a tile's end takes for what is added to its sums: less where it is in shared memory by then."""
    fetched = work.bytes_out if sizes.fetched else 0
    cycles = sizes.bm * sizes.bn * fetched / _FETCHED_BYTES
    if work.bytes_added > fetched:
        cycles += sizes.groups * -(-sizes.across // _LOADED_COLUMNS) * _LOAD_CYCLES
    return cycles


def _streamed_cycles(chip: Chip, work: Work, sizes: Tile, step: float, end: float, added: float) -> float:
    """Cycles of a multiprocessor where blocks divide the steps of the last tiles: it leaves sums, and adds those of others."""
    tiles, places, steps = _tiles(work, sizes), chip.resident(sizes.blocks), -(-work.k // sizes.bk)
    whole = tiles // places - (tiles > places and tiles % places > 0)
    left = tiles - whole * places
    own = -(-left * steps // places)
    others = -(-steps // own) if left else 0
    sums = work.products * sizes.bm * sizes.bn * SUM_BYTES
    rate = min(L2_BYTES_EACH, chip.l2_bytes / (places * sizes.blocks))
    all_steps = (whole * steps + own) * step + (whole + -(-left // places)) * end
    move = chip.ends.move
    moved = (sums / rate + move) * (left > 0) + others * (sums / min(rate, added or rate) + move)
    return all_steps + moved


def least_cycles(work: Work) -> float:
    """Cycles that no kernel is faster than: those of the tensor cores of all multiprocessors, or those of memory."""
    products = (
        work.products * work.batch * work.m * work.n * work.k * work.bytes_in / (ROWS * COLUMNS_A_CYCLE * DEPTH_BYTES)
    )
    return max(products / resident(1), work.memory_bytes / _CHIP.memory_bytes)


def traffic(work: Work, sizes: Tile) -> float:
    """Bytes of A and B that leave the L2 cache, what lies outside of them included."""
    blocks = _tiles(work, sizes) * sizes.shared
    return blocks * (sizes.bm / sizes.beside * work.bytes_in + sizes.bn / sizes.cluster * work.bytes_of_b) * work.k


def _step_cycles(work: Work, sizes: WarpGroupTile) -> float:
    """Cycles of a step over K of a multiprocessor."""
    depth = sizes.bk * work.bytes_in
    instructions = work.products * sizes.down // ROWS * depth // DEPTH_BYTES
    products = _PRODUCTS * instructions * sizes.across / COLUMNS_A_CYCLE
    # What instructions read, and what copies write.
    copied = (sizes.bm * work.bytes_in + sizes.bn * work.bytes_of_b) * sizes.bk
    first = 0 if work.code_bits else ROWS
    moved = instructions * (first + sizes.across) * DEPTH_BYTES + copied
    shared, made = moved / SHARED_BYTES, 0.0
    if work.code_bits:
        pairs = sizes.bn * sizes.bk / _PAIRS_A_CYCLE
        shared, made = shared + pairs, pairs * work.pair_instructions / _ISSUED
    if sizes.promote:
        adds = work.products * sizes.bm * sizes.bn / _LANES
        # Products of another consumer, or of another block, go on while one adds.
        products = products if sizes.consumers * sizes.resident > 1 else products + adds
        made += adds
    own = sizes.bm * sizes.bk * work.bytes_in // _PIECE_BYTES * _PIECE_CYCLES // WARP_GROUP if work.gathers else 0
    longest = max(products, shared, made, copied / _COPIED_BYTES, _STEP_CYCLES + own, _COPY_CYCLES / (sizes.stages - 1))
    return longest + (sizes.beside > 1) * _BESIDE_CYCLES + (sizes.cluster > 1) * _CLUSTER_CYCLES


def _tiles(work: Work, sizes: Tile) -> int:
    """Tiles, or groups of them where blocks of a cluster share those of A or B."""
    rows, columns = -(-work.m // sizes.bm), -(-work.n // sizes.bn)
    return -(-rows // sizes.cluster) * -(-columns // sizes.beside) * work.batch
