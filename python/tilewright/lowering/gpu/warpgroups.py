# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares a block's product between a warp group that copies boxes of A and B, and others that multiply them (Hopper).

Upstream has the instructions, and no op that divides a loop between those who copy and those who multiply.

Before::

    for k: sums = contract(read A under a mask, read B under a mask, sums)
    write C <- f(sums)

After, with a slot for each stage, and two barriers a slot, `full` and `empty`::

    if first warp group:                       # one thread of it
        for k: await empty[slot];  expect so many bytes at full[slot];  copy boxes of A and B to slot
    else:
        for k:
            await full[slot]
            sums += tile_a[slot] * tile_b[slot], asynchronously
            await the product before;  arrive at empty[slot before]
        await all products
        write C <- f(sums)

Sources: the PTX ISA manual, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate" and "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import staging
from tilewright.lowering.gpu.index import Index, add, divide, multiply, value
from tilewright.lowering.gpu.parts import Part
from tilewright.lowering.gpu.threads import Sharing, defined_by
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, llvm, memref, nvvm, scf, vector
from tilewright.schedules.warpgroup import ROW_BYTES, ROWS, WARP_GROUP, WarpGroupTile

WARP = 32
TYPES: Mapping[str, str] = MappingProxyType({"f16": "f16", "bf16": "bf16", "i8": "s8", "u8": "u8"})
"""PTX's names of the element types that warp groups multiply."""
_DEPTH_BYTES = 32
"""Bytes of a row of A that one instruction multiplies."""
_SWIZZLED_ROWS = 8
"""Rows after which the pattern of a swizzle repeats."""
_FEW_REGISTERS, _MANY_REGISTERS = 40, 232
"""Of a thread that copies, and of one that multiplies: with two groups that multiply, all that there are."""
_TICKS = 0x989680
"""How long a thread sleeps at most before it looks at a barrier again."""


@dataclass(frozen=True, slots=True)
class Box:
    """How an operand is copied: in boxes whose rows are as long as the swizzle's.

    Attributes:
        operand: Its number among the kernel's operands.
        shape: Elements of a box: along the axis of neighbours last.
        count: Boxes side by side along the axis of neighbours.
        along_k: Whether that axis is K.
    """

    operand: int
    shape: tuple[int, int]
    count: int
    along_k: bool


def box(operand: int, tile: tuple[int, int], neighbours: int, size: int) -> Box:
    """The box for operand 0 (A) or 1 (B), of elements of `size` bits, whose tile has those extents, as the product has it."""
    inner = ROW_BYTES * 8 // size
    outer = tile[1 - neighbours]
    return Box(operand, (outer, inner), tile[neighbours] // inner, (operand == 0) == (neighbours == 1))


@dataclass(frozen=True, slots=True)
class WarpGroups:
    """What `Sharing` asks a multiplier, for groups that multiply: a thread has what the instruction leaves it.

    Attributes:
        sizes: The strategy's.
    """

    sizes: WarpGroupTile

    @property
    def part(self) -> Part:
        """Two rows, of every 8 columns two neighbours."""
        return Part((0, 8), tuple((column, 2) for column in range(0, self.sizes.bn, 8)))

    @property
    def threads(self) -> int:
        """As the sizes say."""
        return self.sizes.threads

    @property
    def stages(self) -> int:
        """As the sizes say."""
        return self.sizes.stages

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """Warps have 16 rows each; in a warp, groups of four threads have a row."""
        multiplying = arith.subi(thread, value(WARP_GROUP))
        warp, lane = divide(multiplying, WARP)
        group, place = divide(lane, 4)
        return add(multiply(warp, 16), group), multiply(place, 2)


class Specialised(Sharing):
    """One loop over blocks on its way to warp groups of two kinds."""

    def __init__(self, loop: ir.Operation, groups: WarpGroups, types: tuple[str, str]) -> None:
        """Makes it for a product of elements of `types`."""
        super().__init__(loop, groups)
        self._groups = groups
        self._types = types
        self.boxes: list[Box] = []

    def _emit_all(self, ops: list[ir.Operation]) -> None:
        """The loop over K in both kinds of groups; what follows it, in those that multiply."""
        loops = [number for number, op in enumerate(ops) if op.name == "scf.for"]
        if len(loops) != 1:
            raise LoweringError(
                f"{len(loops)} loops over K in a block", stage="threads", expected="one", remedy="K has to be above bk"
            )
        for op in ops[: loops[0]]:
            self._emit(op)
        over_k = ops[loops[0]]
        self._prepare(over_k)
        copies = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, self._thread, value(WARP_GROUP)), has_else=True)
        multiplies = copies.else_block
        assert multiplies is not None, "as asked for"
        with ir.InsertionPoint(copies.then_block):
            _set_registers("decrease", _FEW_REGISTERS)
            one = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, self._thread, value(0)))
            with ir.InsertionPoint(one.then_block):
                self._copy_all(over_k)
                scf.yield_([])
            scf.yield_([])
        with ir.InsertionPoint(multiplies):
            _set_registers("increase", _MANY_REGISTERS)
            self._multiply_all(over_k)
            self._finish(over_k, ops[loops[0] + 1 :])
            scf.yield_([])

    def _prepare(self, over_k: ir.Operation) -> None:
        """Tiles, barriers, and the maps of the tensors, which are new parameters of the kernel."""
        reads = [
            op.operation for op in over_k.regions[0].blocks[0].operations if op.operation.name == "vector.transfer_read"
        ]
        self._reads = sorted(reads, key=self._which)
        self._tiles: list[ir.Value] = []
        self._maps: list[ir.Value] = []
        function = self._loop.parent
        while function is not None and function.name != "func.func":
            function = function.parent
        assert function is not None, "blocks are in a function"
        pointer = ir.Type.parse("!llvm.ptr")
        for number, read in enumerate(self._reads):
            kind = ir.VectorType(read.results[0].type)
            size = staging.bits(kind.element_type)
            down, across = kind.shape
            each = box(number, (down, across), staging.neighbours(read.operands[0]), size)
            if size == 8 and not each.along_k:
                raise LoweringError("bytes that do not lie along K in memory cannot be multiplied", stage="threads")
            self.boxes.append(each)
            bytes_ = down * across * size // 8
            self._tiles.append(_shared(self._groups.stages * bytes_))
            self._maps.append(function.regions[0].blocks[0].add_argument(pointer, function.location))
        inputs = [argument.type for argument in function.regions[0].blocks[0].arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        self._barriers = _shared(2 * self._groups.stages * 8)
        first = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, self._thread, value(0)))
        with ir.InsertionPoint(first.then_block):
            warps = (self._groups.threads - WARP_GROUP) // WARP
            for slot in range(self._groups.stages):
                nvvm.mbarrier_init(self._full(slot), _i32(1))
                nvvm.mbarrier_init(self._empty(slot), _i32(warps))
            nvvm.fence_mbarrier_init()
            scf.yield_([])
        gpu.barrier()

    def _which(self, read: ir.Operation) -> int:
        operand = self._operand(read.results[0])
        assert operand is not None, "all reads of the loop are of the product's operands"
        return operand

    def _full(self, slot: Index) -> ir.Value:
        return _pointer(self._barriers, multiply(slot, 8))

    def _empty(self, slot: Index) -> ir.Value:
        return _pointer(self._barriers, add(multiply(slot, 8), 8 * self._groups.stages))

    def _turn(self, k: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The slot of a step, and the parity of the slot's turn."""
        turn, slot = divide(divide(k, self._groups.sizes.bk)[0], self._groups.stages)
        return value(slot), _as_i32(arith.andi(value(turn), value(1)))

    def _loop_over(self, over_k: ir.Operation, start: list[ir.Value]) -> scf.ForOp:
        lower, upper, step, *_ = (self._of(operand) for operand in over_k.operands)
        return scf.ForOp(lower, upper, step, start)

    def _copy_all(self, over_k: ir.Operation) -> None:
        """The loop of the thread that has boxes copied."""
        block = over_k.regions[0].blocks[0]
        loop = self._loop_over(over_k, [])
        with ir.InsertionPoint(loop.body):
            self._values[block.arguments[0]] = loop.induction_variable
            slot, parity = self._turn(loop.induction_variable)
            _await(self._empty(slot), arith.xori(parity, _i32(1)))
            for op in block.operations:
                one = op.operation
                vectors = one.results and isinstance(one.results[0].type, ir.VectorType)
                if not vectors and one.name != "scf.yield":
                    self._emit(one)
            barrier = self._full(slot)
            word = ir.IntegerType.get_signless(64)
            nvvm.mbarrier_arrive_expect_tx(word, barrier, _i32(sum(self._tile_bytes(each) for each in (0, 1))))
            for number in (0, 1):
                self._copy(number, slot, barrier)
            scf.yield_([])

    def _tile_bytes(self, number: int) -> int:
        kind = ir.VectorType(self._reads[number].results[0].type)
        down, across = kind.shape
        return down * across * staging.bits(kind.element_type) // 8

    def _copy(self, number: int, slot: ir.Value, barrier: ir.Value) -> None:
        """Begins the copies of an operand's boxes to a slot."""
        read, each = self._reads[number], self.boxes[number]
        row, column = self._offsets(read.operands[0])
        inner, outer = (column, row) if staging.neighbours(read.operands[0]) == 1 else (row, column)
        box_bytes = self._tile_bytes(number) // each.count
        for part in range(each.count):
            place = add(multiply(slot, self._tile_bytes(number)), part * box_bytes)
            target = llvm.addrspacecast(ir.Type.parse("!llvm.ptr<7>"), _pointer(self._tiles[number], place))
            coordinates = [_as_i32(value(add(inner, part * each.shape[1]))), _as_i32(value(outer))]
            nvvm.cp_async_bulk_tensor_shared_cluster_global(target, self._maps[number], coordinates, barrier, [])

    def _offsets(self, view: ir.Value) -> list[Index]:
        """Where a view of an operand starts."""
        subview = defined_by(view, "memref.subview")
        if subview is None:
            raise LoweringError("an operand of a block that is no slice", stage="threads")
        static = list(ir.DenseI64ArrayAttr(subview.attributes["static_offsets"]))
        given = iter(subview.operands[1:])
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        return [self._of(next(given)) if offset == dynamic else offset for offset in static]

    def _multiply_all(self, over_k: ir.Operation) -> None:
        """The loop of those that multiply; the sums of integers wrap around."""
        part = self._groups.part.shape
        element = ir.VectorType(over_k.results[0].type).element_type
        count = part[0] * part[1]
        sums_type = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * count)})>")
        zeros = ir.Operation.create("llvm.mlir.zero", results=[sums_type]).results[0]
        loop = self._loop_over(over_k, [zeros])
        with ir.InsertionPoint(loop.body):
            slot, parity = self._turn(loop.induction_variable)
            _await(self._full(slot), parity)
            sums = self._products(slot, loop.inner_iter_args[0], sums_type)
            nvvm.wgmma_wait_group_sync_aligned(1)
            later = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ugt, loop.induction_variable, value(0)))
            with ir.InsertionPoint(later.then_block):
                before = arith.subi(loop.induction_variable, value(self._groups.sizes.bk))
                self._release(self._turn(before)[0])
                scf.yield_([])
            scf.yield_([sums])
        nvvm.wgmma_wait_group_sync_aligned(0)
        # A thread's sums come by 8 columns, in each by row: the part has all columns of a row side by side.
        elements = [
            llvm.extractvalue(element, loop.results[0], [column // 2 * 4 + row * 2 + column % 2])
            for row in range(part[0])
            for column in range(part[1])
        ]
        kind = ir.VectorType.get(part, element)
        self._values[over_k.results[0]] = vector.from_elements(kind, elements)

    def _release(self, slot: ir.Value) -> None:
        """One thread of each warp says that the warp has read all of a slot."""
        lane = divide(self._thread, WARP)[1]
        one = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, value(lane), value(0)))
        with ir.InsertionPoint(one.then_block):
            nvvm.mbarrier_arrive(ir.IntegerType.get_signless(64), self._empty(slot))
            scf.yield_([])

    def _products(self, slot: ir.Value, sums: ir.Value, kind: ir.Type) -> ir.Value:
        """Begins the products of a slot, one group of them."""
        nvvm.wgmma_fence_aligned()
        group, _ = divide(arith.subi(self._thread, value(WARP_GROUP)), WARP_GROUP)
        size = staging.bits(ir.VectorType(self._reads[0].results[0].type).element_type)
        depth = _DEPTH_BYTES * 8 // size
        # Rows of A of this group: a part of each box along K, and a box of its own otherwise.
        own = multiply(group, ROWS * ROW_BYTES if self.boxes[0].along_k else self._tile_bytes(0) // self.boxes[0].count)
        starts = [self._descriptor(0, slot, own), self._descriptor(1, slot, 0)]
        steps = [_DEPTH_BYTES if each.along_k else depth * ROW_BYTES for each in self.boxes]
        for number in range(self._groups.sizes.bk // depth):
            descriptors = [
                arith.addi(start, arith.constant(start.type, number * step // 16))
                for start, step in zip(starts, steps, strict=True)
            ]
            sums = self._product(descriptors, sums, kind, depth)
        nvvm.wgmma_commit_group_sync_aligned()
        return sums

    def _product(self, descriptors: Sequence[ir.Value], sums: ir.Value, kind: ir.Type, depth: int) -> ir.Value:
        """Begins one instruction."""
        a, b = (TYPES[each] for each in self._types)
        sum_type = "s32" if a in ("s8", "u8") else "f32"
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        # Rows of A and columns of B lie along K as the instruction has it, or, of 16-bit elements, across.
        layouts = ["row" if self.boxes[0].along_k else "col", "col" if self.boxes[1].along_k else "row"]
        layout_a, layout_b = (ir.Attribute.parse(f"#nvvm.mma_layout<{each}>") for each in layouts)
        type_a, type_b, type_sum = (ir.Attribute.parse(f"#nvvm.wgmma_type<{each}>") for each in (a, b, sum_type))
        return nvvm.wgmma_mma_async(
            kind,
            sums,
            descriptors[0],
            descriptors[1],
            ir.Attribute.parse(f"#nvvm.shape<m = {ROWS}, n = {self._groups.sizes.bn}, k = {depth}>"),
            type_a,
            type_b,
            type_sum,
            ir.Attribute.parse("#nvvm.wgmma_scale_out<one>"),
            one,
            one,
            layout_a,
            layout_b,
        )

    def _descriptor(self, number: int, slot: ir.Value, further: Index) -> ir.Value:
        """The descriptor of an operand's tile in a slot: where it starts, its strides, and its swizzle."""
        each = self.boxes[number]
        start = add(_address(self._tiles[number]), add(multiply(slot, self._tile_bytes(number)), further))
        word = ir.IntegerType.get_signless(64)
        address = arith.shrui(
            arith.andi(arith.index_cast(word, value(start)), arith.constant(word, 0x3FFFF)), arith.constant(word, 4)
        )
        leading = 1 if each.along_k else self._tile_bytes(number) // each.count // 16
        stride = _SWIZZLED_ROWS * ROW_BYTES // 16
        constant = (leading << 16) | (stride << 32) | (1 << 62)
        return arith.ori(address, arith.constant(word, constant))


def _set_registers(action: str, count: int) -> None:
    """Gives registers back, or takes those that others have given back."""
    nvvm.setmaxregister(count, ir.Attribute.parse(f"#nvvm<action {action}>"))


def _shared(bytes_: int) -> ir.Value:
    """So many bytes of shared memory."""
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), staging.SHARED)
    return memref.alloc(ir.MemRefType.get([bytes_], ir.IntegerType.get_signless(8), memory_space=space), [], [])


def _address(buffer: ir.Value) -> ir.Value:
    return memref.extract_aligned_pointer_as_index(buffer)


def _pointer(buffer: ir.Value, offset: Index) -> ir.Value:
    """A pointer to a place in shared memory."""
    word = ir.IntegerType.get_signless(64)
    place = arith.index_cast(word, value(add(_address(buffer), offset)))
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), place)


def _await(barrier: ir.Value, parity: ir.Value) -> None:
    nvvm.mbarrier_try_wait_parity(barrier, parity, _i32(_TICKS))


def _i32(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(32), number)


def _as_i32(index: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(32), index)
