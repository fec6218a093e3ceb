# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule: functions from handles to handles, each a few transform ops.

Every step builds ops of upstream's transform dialect, or of ours, at the insertion point of the script; they remember the Python line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import cast

from tilewright.build.constants import attribute
from tilewright.mlir import ir
from tilewright.mlir.dialects import tilewright as dialect
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import loop, structured, tensor, vector
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import decisions
from tilewright.schedules.models import prefetching
from tilewright.schedules.models.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

Handle = ir.Value
"""A transform value that stands for payload operations, or for a parameter, such as a size."""
Size = int | Handle
"""A size in a schedule: a number, or a transform parameter, such as a knob's (`steps.knobs`)."""

_TRACEBACK_FRAMES = 16
MARK = "mark_"
"""What the names of marks begin with."""
EPILOGUE = "epilogue"
"""Mark of what is done to the sums."""


@dataclass(frozen=True, slots=True)
class Script:
    """A transform module under construction.

    Attributes:
        module: The module; complete once the ``with`` block is left.
        root: Handle to the payload's module.
        functions: Handle to the functions in it.
    """

    module: ir.Module
    root: Handle
    functions: Handle


@contextmanager
def script(*, consumes: bool = False) -> Iterator[Script]:
    """Opens a module with the named sequence ``@__transform_main``, which ``--transform-interpreter`` runs.

    `consumes` says that a step replaces the payload's module itself. Needs an active `ir.Context`.
    """
    # Upstream annotates its context manager as the iterator that it is made from.
    tracebacks = cast("AbstractContextManager[None]", ir.loc_tracebacks(max_depth=_TRACEBACK_FRAMES))
    with ir.Location.unknown(), tracebacks:
        module = ir.Module.create()
        module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
        handle = transform.AnyOpType.get()
        with ir.InsertionPoint(module.body):
            use = {"transform.consumed" if consumes else "transform.readonly": ir.UnitAttr.get()}
            sequence = transform.NamedSequenceOp("__transform_main", [handle], [], arg_attrs=[use])
        with ir.InsertionPoint(sequence.body):
            yield Script(module, sequence.bodyTarget, match(sequence.bodyTarget, "func.func"))
            transform.YieldOp([])


def nothing() -> ir.Module:
    """A schedule without a step, for a payload that has no product. Needs an active `ir.Context`."""
    with script() as empty:
        pass
    return empty.module


def record(functions: Handle, strategy: FunctionType, blocking: Blocking, target: Target) -> None:
    """Writes on the payload's functions which strategy schedules them, with which sizes, and for which target.

    Before: ``func.func @matmul(...)``. After::

        func.func @matmul(...) attributes {tilewright.schedule = #tilewright.schedule<strategy = "packed", ...>,
                                           tilewright.target = #tilewright.target<name = "x86-64-v4", ...>}
    """
    sizes = ir.DictAttr.get(
        {name: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size) for name, size in blocking.by_name.items()}
    )
    facts = dialect.TargetAttr.get(
        target.name,
        target.triple,
        target.feature_string,
        tune_cpu=target.tune_cpu,
        vector_bits=target.vector_bits,
        prefer_vector_width=target.prefer_vector_width,
    )
    code = strategy.__code__
    source = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    for annotation in (dialect.ScheduleAttr.get(strategy.__name__, sizes, source), facts):
        ours.tilewright_annotate(functions, annotation)


def decide(op: Handle, decision: decisions.Decision) -> None:
    """Records a decision on the ops of a handle, for the lowering to carry out.

    Before: ``linalg.matmul ...``. After: ``linalg.matmul {tilewright.product = #tilewright.scalable_tiles<mr = 8, ...>} ...``.
    """
    ours.tilewright_annotate(op, decisions.attribute(decision))


def prefetch_all(functions: Handle) -> None:
    """Has all operands prefetched by software, also those of dynamic extents: ``func.func ... {tilewright.prefetch = ...}``."""
    decide(functions, decisions.Prefetch("all"))


def prefetch_weights(functions: Handle, spec: MatmulSpec, target: Target) -> None:
    """The same, where a B that comes from beyond L2 meets rows that only a call counts."""
    if prefetching.reads_weights(spec, target):
        prefetch_all(functions)


def match(root: Handle, name: str, *, result_type: ir.Type | None = None) -> Handle:
    """Finds the ops called `name` below `root`, in program order; with `result_type`, those of that result type."""
    return structured.structured_match(
        transform.AnyOpType.get(),
        root,
        ops=ir.ArrayAttr.get([ir.StringAttr.get(name)]),
        filter_result_type=None if result_type is None else ir.TypeAttr.get(result_type),
    )


def mark(op: Handle, name: str) -> None:
    """Gives `op` the attribute ``mark_<name>``, by which `match_marked` finds it after other steps have moved it."""
    transform.annotate(op, f"{MARK}{name}")


def match_marked(root: Handle, name: str) -> Handle:
    """Finds the ops below `root` that have a mark."""
    return structured.structured_match(
        transform.AnyOpType.get(), root, op_attrs=ir.DictAttr.get({f"{MARK}{name}": ir.UnitAttr.get()})
    )


def match_product(root: Handle, spec: MatmulSpec, axes: int = 0, *, named: bool = True) -> Handle:
    """Finds the ops below `root` that multiply and add, which have so many `axes` of a batch.

    They are called ``linalg.matmul``, or with a batch ``linalg.contract``; where one operand of integers has a sign and the other has
    none, or they are not `named`, ``linalg.generic``, which what is done to the sums is too, but without a reduction.
    """
    if named and spec.a_type.kind == spec.b_type.kind:
        return match(root, "linalg.contract" if axes else "linalg.matmul")
    kinds = [*["parallel"] * (axes + 2), "reduction"]
    iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    return structured.structured_match(
        transform.AnyOpType.get(),
        root,
        ops=ir.ArrayAttr.get([ir.StringAttr.get("linalg.generic")]),
        op_attrs=ir.DictAttr.get({"iterator_types": ir.ArrayAttr.get(iterators)}),
    )


def match_result(script: Script, spec: MatmulSpec) -> Handle:
    """Finds the op that makes the result: the product, or what is done to its sums before they are written."""
    return producer(match(script.functions, "func.return"), 0) if spec.fused else match_product(script.root, spec)


def tile_result(op: Handle, sizes: Sequence[Size], spec: MatmulSpec) -> tuple[Handle, Handle]:
    """Tiles by `sizes` (m, n, k) what `match_result` finds, with the product inside. Returns the tile and its loop."""
    if not spec.fused:
        return tile(op, sizes)
    computed = spec.prologue_a or spec.prologue_b
    return tile_with_product(op, sizes[:2], spec) if computed else tile_with_producers(op, sizes[:2])


def producer(op: Handle, operand: int) -> Handle:
    """The op that defines operand number `operand` of `op`."""
    return transform.GetProducerOfOperand(transform.AnyOpType.get(), op, operand).result


def consumers(op: Handle, result: int = 0) -> Handle:
    """The ops that use result number `result` of `op`."""
    return transform.GetConsumersOfResult(transform.AnyOpType.get(), op, result).result


def enclosing_loop(op: Handle, *, exists: bool = True) -> Handle:
    """The innermost ``scf.for`` around `op`; without `exists`, nothing where `op`, a single one, is in no loop."""
    kind = transform.AnyOpType.get()
    return transform.get_parent_op(kind, op, op_name="scf.for", deduplicate=True, allow_empty_results=not exists)


def split(handle: Handle, count: int) -> list[Handle]:
    """Splits a handle to several ops into `count` handles to one op each; those beyond the last op are empty."""
    kind = transform.AnyOpType.get()
    return list(transform.SplitHandleOp([kind] * count, handle, fail_on_payload_too_small=False).operation.results)


def for_each(ops: Handle, do: Callable[[Handle], object]) -> None:
    """Does to one op after the other what wants a single one."""
    each = transform.ForeachOp([], [ops])
    with ir.InsertionPoint(each.body):
        do(each.bodyTargets[0])
        transform.YieldOp([])


def apply(target: Handle, patterns: Callable[[], object], *, cse: bool = False) -> None:
    """Applies to `target`, until nothing changes, the patterns whose pattern ops the function `patterns` builds."""
    op = transform.ApplyPatternsOp(target, apply_cse=cse)
    with ir.InsertionPoint(op.patterns):
        patterns()


def clean(target: Handle) -> None:
    """Canonicalizes `target` and removes common subexpressions."""
    apply(target, transform.apply_patterns_canonicalization, cse=True)


def tile(op: Handle, sizes: Sequence[Size]) -> tuple[Handle, Handle]:
    """Tiles one dimension of a linalg op: the size that is not zero. Returns the tile and its loop.

    Before: ``C += A * B`` over (m, n, k). After ``tile(op, [0, 64, 0])``::

        for j in 0..N step 64:
            C[:, j:j+64] += A[:, :] * B[:, j:j+64]
    """
    if all(isinstance(size, int) and not size for size in sizes):
        raise ValueError(f"no size above zero in {list(sizes)}; expected one, of the dimension to tile")
    tiled = structured.TileUsingForOp(op, sizes=list(sizes))
    return tiled.results[0], tiled.results[1]


def tile_with_producers(op: Handle, sizes: Sequence[Size]) -> tuple[Handle, Handle]:
    """Tiles one dimension of a linalg op, and computes what it needs of the ops before it inside of the loop.

    Returns the tile and its loop. Before: ``P = A * B``, ``C = f(P)`` over (m, n). After ``tile_with_producers(op, [0, 64])``::

        for j in 0..N step 64:
            p = A * B[:, j:j+64]
            C[:, j:j+64] = f(p)
    """
    tiled = structured.FuseOp(op, tile_sizes=list(sizes), apply_cleanup=True)
    return tiled.results[0], tiled.results[1]


def tile_with_product(
    op: Handle, sizes: Sequence[Size], spec: MatmulSpec, function: Handle | None = None, axes: int = 0
) -> tuple[Handle, Handle]:
    """Tiles as `tile_with_producers` does, but leaves outside what copies A and B or computes them, which is for packing to do.

    The product has so many `axes` of a batch, and is in `function`, or in that of `op`.
    """
    kind = transform.AnyOpType.get()
    function = function or transform.get_parent_op(kind, op, op_name="func.func")
    tiled, loop_ = tile(op, sizes)
    product = match_product(function, spec, axes)
    zeros = producer(product, 2)
    producers = transform.merge_handles([product, zeros], deduplicate=True) if spec.fused else zeros
    loop_ = structured.FuseIntoContainingOp(kind, kind, producers, loop_).results[1]
    merge_slices(function)
    return tiled, loop_


def fuse_loops(loops: Sequence[Handle]) -> None:
    """Makes one loop of several that take the same steps and do not depend on each other.

    Before: ``for k: s += A[k] * B[k]``, ``for k: t += A[k] * D[k]``. After::

        for k: s += A[k] * B[k]; t += A[k] * D[k]
    """
    first, *others = loops
    for each in others:
        first = loop.loop_fuse_sibling(transform.AnyOpType.get(), first, each)


def split_sum(op: Handle, sizes: Sequence[int]) -> Handle:
    """Tiles the reduction of a linalg op so that each element of a tile has a sum of its own. Returns the loop.

    Before: ``C[i] += sum over k of A[i, k] * B[k]``. After ``split_sum(op, [0, 0, 16])``::

        partial[i, 0:16] = 0
        for k in 0..K step 16:
            partial[i, 0:16] += A[i, k:k+16] * B[k:k+16]
        C[i] += sum of partial[i, :]
    """
    kind = transform.AnyOpType.get()
    return structured.TileReductionUsingForOp([kind], kind, kind, kind, op, tile_sizes=list(sizes)).results[-1]


def stage(op: Handle, operand: int, gap: int, *, transposed: bool = False, most: Sequence[int] | None = None) -> None:
    """Gives a matmul its operand number `operand` (0: A, 1: B, 2: C) in a buffer whose rows are `gap` elements longer, or are its columns.

    It has at most as many rows and columns as `most` says; None where the payload tells.

    Before: ``C += A * B``. After, with operand 2::

        S = C (rows of N + gap)
        S += A * B
        C = S

    After, with operand 1, transposed::

        S[j, k] = B[k, j] (rows of K + gap)
        C[i, j] += A[i, k] * S[j, k]
    """
    ours.tilewright_stage(op, operand, gap, transposed=transposed or None, most=most)


def vectorize_elements(functions: Handle, name: str, rows: int, columns: int, width: int) -> None:
    """Computes the elementwise op marked `name`, of `rows` x `columns` elements, in vectors of `width`, row by row.

    Before: ``C = f(S)``. After::

        for i in 0..rows: for j in 0..columns step width: C[i, j:j+width] = f(S[i, j:j+width])
    """
    op = match_marked(functions, name)
    if rows > 1:
        op, _ = tile(op, [1, 0])
    if width < columns:
        _, over = tile(op, [0, width])
        if columns % width:
            peel(over)
    clean(functions)
    vectorize(match_marked(functions, name))
    clean(functions)


def compute_reads(functions: Handle) -> None:
    """Computes what a prologue makes of a matrix where vectors of it are read, so that its result is never in memory.

    Before: ``P = f(B)``, ``for k, j: c += a[k] * read P[k, j:j+L]``. After::

        for k, j: c += a[k] * f(read B[k, j:j+L])
    """
    merge_slices(functions)
    ours.tilewright_compute_reads(functions)
    clean(functions)


def merge_slices(functions: Handle) -> None:
    """Makes each slice of a slice a slice of the original tensor, so that packing can be hoisted over the loops between.

    Before: ``t = B[p:p+kc, :]``, ``u = t[:, j:j+nr]``. After: ``u = B[p:p+kc, j:j+nr]``.
    """

    def patterns() -> None:
        tensor.apply_patterns_tensor_merge_consecutive_insert_extract_slice()
        transform.apply_patterns_canonicalization()

    apply(functions, patterns)


def pad(op: Handle, spec: MatmulSpec, *, sizes: Sequence[Size], pack: Sequence[bool]) -> Handle:
    """Pads the operands of a tile of a matmul to multiples of `sizes` (m, n, k; 0 leaves a dimension) with zeros.

    `pack` says for A, B and C whether a copy is made even where no padding is needed, as packing wants. Returns the padded op.

    Before: ``C[i:i+r, j:j+s] += A[i:i+r, p:p+t] * B[p:p+t, j:j+s]`` with r, s, t perhaps short. After::

        a = pad(A[...]) to (MR, KC);  b = pad(B[...]) to (KC, NR);  c = pad(C[...]) to (MR, NR)
        c += a * b
        C[i:i+r, j:j+s] = c[:r, :s]
    """
    elements = [ir.Type.parse(each.mlir) for each in (spec.a_type, spec.b_type, spec.acc_type)]
    dimensions = [d for d, size in enumerate(sizes) if not isinstance(size, int) or size]
    return structured.PadOp(
        op,
        pad_to_multiple_of=[sizes[d] for d in dimensions],
        padding_values=[attribute(element, 0) for element in elements],
        padding_dimensions=dimensions,
        nofold_flags=[int(p) for p in pack],
        copy_back_op="none",
    ).results[0]


def trim(op: Handle, multiple: int) -> None:
    """Lets a padded product read its operands along k no further than they go, in multiples of `multiple`.

    Before, with a and b padded from t to KC along k: ``c += a[:, 0:KC] * b[0:KC, :]``. After::

        c += a[:, 0:t] * b[0:t, :]
    """
    ours.tilewright_trim(transform.AnyOpType.get(), op, multiple=multiple)


def hoist_packing(panel: Handle, loops: int) -> None:
    """Hoists the padded copy of an operand over `loops` loops, as a loop nest that packs all the tiles they visit.

    Before: ``for j: for i: b = pad(B[p:p+kc, j:j+nr]); c += a * b``. After, with the loops over j and i::

        for j: packed[j / nr] = pad(B[p:p+kc, j:j+nr])
        for j: for i: c += a * packed[j / nr]
    """
    structured.structured_hoist_pad(transform.AnyOpType.get(), panel, loops)


def hoist_invariants(functions: Handle) -> None:
    """Moves out of each loop what does not depend on it, such as the padded copy of an operand with one panel only.

    Before: ``for i: b = pad(B); c += a[i] * b``. After: ``b = pad(B)``, then ``for i: c += a[i] * b``.
    """
    transform.apply_licm(match(functions, "scf.for"))


def vectorize_packing(
    pads: Handle,
    lanes: int,
    *,
    rows: int = 1,
    transposed: bool = False,
    masked: bool = False,
    trimmed: int | None = None,
    step: int = 1,
    computed: bool = False,
) -> None:
    """Makes each packing copy a loop over rows that moves vectors of `lanes` elements, masked where a row is short.

    `rows` are moved in one step: those that an instruction multiplies at once, to be interleaved later. With `trimmed`, what
    is padded along that dimension (0: rows, 1: columns) is never read, as `trim` says, but for the rest of the last `step` rows.

    Before: ``packed[j] = pad(B[p:p+kc, j:j+nr])``. After::

        for k in 0..kc: packed[j][k, 0:lanes] = B[p+k, j:j+lanes]; ...

    Where B is stored `transposed`, blocks are transposed in registers; with `masked`, those that are not whole have one code::

        for k in 0..kc step 16: packed[j][k:k+16, 0:lanes] = transpose of [B[p+k:p+k+16, j], B[p+k:p+k+16, j+1], ...]

    With `computed`, what a prologue does is done here. Before: ``P = f(B)``, ``packed[j] = pad(P[p:p+kc, j:j+nr])``. After::

        for k in 0..kc: packed[j][k, 0:lanes] = f(B[p+k, j:j+lanes]); ...
    """
    forms = {"transposed": transposed, "masked": masked, "computed": computed, "trimmed": trimmed, "step": step}
    ours.tilewright_vectorize_pad(pads, lanes, rows=rows, **forms)


def vectorize(op: Handle) -> None:
    """Vectorizes a linalg op of static shape; a matmul becomes one ``vector.contract``.

    Before: ``c[0:6, 0:64] += a[0:6, 0:1] * b[0:1, 0:64]``. After::

        va = read a; vb = read b; vc = read c
        write c <- contract(va, vb, vc)
    """
    structured.structured_vectorize(op, [], create_named_contraction=True)


def vectorize_product(op: Handle, functions: Handle, spec: MatmulSpec) -> None:
    """Vectorizes a tile of a product; elements narrower than the sum are extended first, each operand's by its own sign.

    Before: ``c[0:6, 0:64] += ext(a[0:6, 0:1]) * ext(b[0:1, 0:64])``. After::

        va = ext(read a); vb = ext(read b); vc = read c
        write c <- contract(va, vb, vc)
    """
    if not spec.widens:
        vectorize(op)
        return
    kind = transform.AnyOpType.get()
    structured.structured_vectorize(structured.structured_generalize(kind, op), [])

    def patterns() -> None:
        vector.apply_patterns_vector_transfer_permutation_patterns()
        vector.apply_patterns_vector_reduction_to_contract()
        vector.apply_patterns_vector_sink_ops()

    apply(functions, patterns)


def keep_partial_sums(functions: Handle) -> None:
    """Keeps what loops read and write in every step at the same place in registers, over all loops.

    Before: ``for k: p = read partial; write partial <- p + A[k] * B[k]``. After::

        p = read partial
        for k: p = p + A[k] * B[k]
        write partial <- p
    """
    _hoist(match(functions, "scf.for"))
    clean(functions)


def _hoist(loops: Handle) -> None:
    transform.apply_licm(loops)
    loop.loop_hoist_loop_invariant_subsets(loops)


def keep_accumulators(functions: Handle, *, looped: bool, short_step: bool = False) -> None:
    """Keeps the accumulators of vectorized matmul tiles in registers over the loops over k around them, if there are.

    A last step that is a `short_step` is in none. Before: ``for k: vc = read c; write c <- contract(a[k], b[k], vc)``. After::

        vc = read c
        for k: vc = contract(a[k], b[k], vc)
        write c <- vc
    """

    def fold_pads() -> None:
        # A padded tile is then read and written where it lies. It itself has to be written, not what a loop passes through unchanged.
        clean(functions)
        apply(functions, structured.apply_patterns_linalg_pad_vectorization)
        clean(functions)

    fold_pads()
    if not looped:
        return
    if short_step:
        for_each(match(functions, "vector.contract"), lambda each: _hoist(enclosing_loop(each, exists=False)))
    else:
        _hoist(enclosing_loop(match(functions, "vector.contract")))
    fold_pads()


def start_from_zero(functions: Handle, *, runs: bool = False, fills: Handle | None = None) -> None:
    """Lets accumulators start at zero in the first step over K, in place of filling C and reading it back.

    All that is filled is such, unless `fills` says what.

    With `runs`, loops of unknown length are taken to have a step: no extent is zero when the function is called.

    Before: ``C = 0; for p: for ...: vc = read C[...]``. After::

        for p: for ...: vc = 0 if p == 0 else read C[...]
    """
    ours.tilewright_forward_fill(match(functions, "linalg.fill") if fills is None else fills, runs=runs)
    clean(functions)


def split_full_tiles(functions: Handle, *, looped: bool) -> None:
    """Gives reads and writes of C tiles a branch without masks for full tiles; `looped` as in `keep_accumulators`.

    Before: ``write C[i:i+MR, j:j+NR] (may be out of bounds) <- vc``. After::

        if full: write C[...] <- vc
        else:    masked write C[...] <- vc
    """
    contracts = match(functions, "vector.contract")
    # Packing may read vectors of the same type: what is read here is what the sums start from.
    sums, start = (enclosing_loop(contracts), 3) if looped else (contracts, 2)
    for_each(producer(sums, start), lambda each: ours.tilewright_split_transfer(match(each, "vector.transfer_read")))
    for_each(sums, lambda each: ours.tilewright_split_transfer(consumers(each)))
    clean(functions)


def vectorize_epilogue(op: Handle, shape: Sequence[int] | None = None) -> Handle:
    """Vectorizes what is done to a padded tile of sums before it is written, or to one of a `shape` at most. Returns the write.

    Before: ``p = A[i:i+r] * B[:, j:j+s]`` padded to (MR, NR), ``C[i:i+r, j:j+s] = f(p[:r, :s], bias[j:j+s])``. After::

        vp = read p; vb = read bias[j:j+NR] (may be out of bounds), the same for each row
        write C[i:i+MR, j:j+NR] (may be out of bounds) <- f(vp, vb)
    """
    return ours.tilewright_vectorize_epilogue(transform.AnyOpType.get(), op, shape=shape)


def vectorize_rows(last: Handle, lanes: int) -> None:
    """Makes one loop over rows of the ops that end in `last`, each a pass in vectors of `lanes` elements.

    Before: ``m = max of S along n``, ``S = exp(S - m)``, ``t = sum of S along n``, ``C = S / t``. After::

        for each row:
            m = max of S[row, :]; S[row, :] = exp(S[row, :] - m); t = sum of S[row, :]; C[row, :] = S[row, :] / t
    """
    ours.tilewright_vectorize_rows(last, lanes)


def split_full_write(write: Handle) -> None:
    """Gives a write of a tile a branch without masks for full tiles, as `split_full_tiles` does."""
    ours.tilewright_split_transfer(write)


def specialize_tiles(
    loop_handle: Handle, *, unit: int = 1, whole: bool = False, short: str = "bounded", once: bool = False
) -> None:
    """Balances the tiles of a loop over a dynamic extent, and gives each size code of its own.

    Sizes are multiples of `unit`; with `whole` the extent is one too, and otherwise the last tile may end within one. It is then
    `short`: "bounded", each size has code with masks as well; "masked", only the largest has code without; "single", none has masks,
    and what is left of a unit comes last, one by one. With `once` the extent is no larger than the step: there is no loop then, and
    where it is "masked" no code without masks. Needs an M above zero. Before: ``for i in 0..M step MR: tile of MR rows``. After::

        for i in 0..M step M over the number of tiles, rounded up:
            1 row: tile of 1 row; 2 rows: tile of 2 rows; ... MR rows: tile of MR rows
    """
    form = {} if short == "bounded" else {short: True}
    ours.tilewright_specialize_tiles(loop_handle, unit=unit, whole=whole, once=once, **form)


def peel(loop_handle: Handle) -> Handle:
    """Splits the last, short step off a loop, so that the others have tiles of static size. Returns it, a loop for now.

    Before: ``for i in 0..M step MR: tile of min(MR, M - i) rows``. After::

        for i in 0..M - M % MR step MR: tile of MR rows
        tile of M % MR rows
    """
    kind = transform.OperationType.get("scf.for")
    return loop.loop_peel(kind, transform.AnyOpType.get(), transform.CastOp(kind, loop_handle).output)[1]
