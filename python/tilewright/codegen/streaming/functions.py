# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions that run in SME's streaming mode: two kinds that pack panels, and one that multiplies them in ZA.

Each enters streaming mode by itself and leaves it again (``arm_locally_streaming``), with a ZA of its own (``arm_new_za``), so
that its callers are ordinary functions. In streaming mode vectors have another length than outside: nothing that depends on
a vector's length crosses the border, and a panel's width is known in here only.

Upstream's dialect ``arm_sme`` has the ops, and its passes allocate the tiles. Its own way to outer products,
``arm-sme-outer-product-fusion``, interleaves what two or four steps over k read from memory again in every step, and
``arm-sme-vector-legalization`` has no widening products; so the ops that widen are made here.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.build.usedef import operations
from tilewright.codegen.streaming.panels import PACK_COLUMNS, PACK_ROWS, matrix, pack_name, pack_text, sizes
from tilewright.lowering import line_tables
from tilewright.lowering.entries.entry import target_attributes
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets import outer_products
from tilewright.targets.base import Target
from tilewright.targets.outer_products import OuterProduct

MULTIPLY = "multiply_panels"
"""Multiplies all panels of A by all of B."""

LOWER = """builtin.module(
    convert-arm-sme-to-scf,
    func.func(
        loop-invariant-code-motion,
        enable-arm-streaming{streaming-mode=streaming-locally za-mode=new-za}
    ),
    canonicalize, cse, lower-affine, expand-strided-metadata, lower-affine, convert-scf-to-cf,
    func.func(convert-arm-sme-to-llvm),
    convert-vector-to-llvm{enable-arm-sve}, convert-ub-to-llvm, finalize-memref-to-llvm, convert-to-llvm,
    reconcile-unrealized-casts, canonicalize, cse
)"""
"""To the LLVM dialect; tiles are allocated when loops are branches, and before vectors are LLVM's."""


def define(module: ir.Module, spec: MatmulSpec, target: Target) -> None:
    """Defines those of these functions that a module in the LLVM dialect declares, in place; they are lowered apart from it.

    Raises:
        LoweringError: A pass failed.
    """
    outer = outer_products.of(spec.a_type.name, spec.b_type.name, target.features)
    if outer is None:
        return
    attributes = ", ".join(f"{name} = {value}" for name, value in target_attributes(target).items())
    attributes += ", llvm.linkage = #llvm.linkage<internal>"
    # LLVM 22 saves the link register for a frame pointer, but not for the call of `emit.za_state` that it makes itself.
    attributes += ", frame_pointer = #llvm.framePointerKind<all>"
    texts = {MULTIPLY: multiply_text(spec, outer, attributes)}
    for side, element in enumerate((spec.a_type, spec.b_type)):
        for function in (PACK_ROWS, PACK_COLUMNS):
            texts[pack_name(function, side)] = pack_text(function, side, element, outer, attributes)
    declared = [op.operation for op in module.body if _name(op) in texts]
    if not declared:
        return
    streaming = ir.Module.parse("".join(texts[_name(op)] for op in declared), module.context)
    for function, calls in zip(streaming.body, declared, strict=True):
        for op in operations(function.operation):
            op.location = calls.location  # The step of the schedule that decided on it.
    line_tables.mark_loops(streaming, "llvm")
    run_passes(streaming, LOWER, "llvm")
    for op in declared:
        op.erase()
    for op in list(streaming.body):
        module.body.append(op)


def _name(op: ir.Operation | ir.OpView) -> str:
    """The name of a symbol."""
    return ir.StringAttr(op.operation.attributes["sym_name"]).value


def multiply_text(spec: MatmulSpec, outer: OuterProduct, attributes: str) -> str:
    """`MULTIPLY`, as MLIR text: (panels of A, panels of B, C, groups of K, whether C's sums start at zero).

    Sums stay in all of ZA's tiles over all of K::

        for j in 0..N step across: for i in 0..M step down:
          za = 0 or C[i:i+down, j:j+across]
          for k: za += outer products of panel_a[i][k] and panel_b[j][k]
          C[i:i+down, j:j+across] = za
    """
    element, total = spec.a_type.mlir, spec.acc_type.mlir
    lanes, c = outer.lanes(), matrix(total)
    tile, vector = f"vector<[{lanes}]x[{lanes}]x{total}>", f"vector<[{lanes * outer.depth}]x{element}>"
    grid = [(i, j) for i in range(outer.down) for j in range(outer.across)]
    tiles = ", ".join([tile] * len(grid))
    count = len(grid)

    def products() -> Iterator[str]:
        for index, (i, j) in enumerate(grid):
            types = f"{vector}, {vector}" + ("" if outer.depth == 1 else f" into {tile}")
            yield f"%y{index} = arm_sme.{outer.op} %a{i}, %b{j} acc(%x{index}) : {types}"

    def operands(name: str, vectors: int) -> Iterator[str]:
        for i in range(vectors):
            yield f"%{name}f{i} = arith.constant {i} : index"
            yield f"%{name}d{i} = arith.muli %vector, %{name}f{i} : index"
            yield f"%{name}o{i} = arith.addi %{name}o, %{name}d{i} : index"
            yield f"%{name}{i} = vector.load %{name}[%{name}o{i}] : memref<?x{element}>, {vector}"

    def places() -> Iterator[str]:
        for name, vectors, extent in (("i", outer.down, "%m"), ("j", outer.across, "%n")):
            for index in range(vectors):
                yield f"%{name}f{index} = arith.constant {index} : index"
                yield f"%{name}d{index} = arith.muli %lanes, %{name}f{index} : index"
                yield f"%{name}{index} = arith.addi %{name}, %{name}d{index} : index"
                yield f"%{name}left{index} = arith.subi {extent}, %{name}{index} : index"
        for index, (i, j) in enumerate(grid):
            yield f"%mask{index} = vector.create_mask %ileft{i}, %jleft{j} : vector<[{lanes}]x[{lanes}]xi1>"

    def each(line: str) -> str:
        return "\n".join(line.format(t=index, i=f"%i{i}", j=f"%j{j}") for index, (i, j) in enumerate(grid))

    def names(prefix: str) -> str:
        return ", ".join(f"{prefix}{index}" for index in range(count))

    zero = "0.0" if spec.acc_type.kind == "float" else "0"
    carried = ", ".join(f"%x{index} = %start#{index}" for index in range(count))
    return f"""
func.func private @{MULTIPLY}(%a: memref<?x{element}>, %b: memref<?x{element}>, %c: {c}, %groups: index, %fresh: i1)
    attributes {{{attributes}}} {{{sizes(outer.down, outer)}
  %acrossf = arith.constant {outer.across} : index
  %across = arith.muli %lanes, %acrossf : index
  %vector = arith.muli %lanes, %depth : index
  %astep = arith.muli %panel, %depth : index
  %bstep = arith.muli %across, %depth : index
  %pad = arith.constant {zero} : {total}
  %m = memref.dim %c, %c0 : {c}
  %n = memref.dim %c, %c1 : {c}
  %k = arith.muli %groups, %depth : index
  scf.for %j = %c0 to %n step %across {{
    %bpanel = arith.muli %j, %k : index
    scf.for %i = %c0 to %m step %panel {{
      %apanel = arith.muli %i, %k : index
{chr(10).join(places())}
      %start:{count} = scf.if %fresh -> ({tiles}) {{
{each("%t{t} = arm_sme.zero : " + tile)}
        scf.yield {names("%t")} : {tiles}
      }} else {{
{each("%t{t} = arm_sme.tile_load %c[{i}, {j}], %pad, %mask{t} : " + c + ", " + tile)}
        scf.yield {names("%t")} : {tiles}
      }}
      %end:{count} = scf.for %group = %c0 to %groups step %c1 iter_args({carried}) -> ({tiles}) {{
        %ag = arith.muli %group, %astep : index
        %ao = arith.addi %apanel, %ag : index
        %bg = arith.muli %group, %bstep : index
        %bo = arith.addi %bpanel, %bg : index
{chr(10).join([*operands("a", outer.down), *operands("b", outer.across), *products()])}
        scf.yield {names("%y")} : {tiles}
      }}
{each("arm_sme.tile_store %end#{t}, %c[{i}, {j}], %mask{t} : " + c + ", " + tile)}
    }}
  }}
  return
}}
"""
