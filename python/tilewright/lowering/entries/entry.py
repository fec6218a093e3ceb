# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entry around a lowered matmul: checks the extents, gets the workspace, calls the body."""

from __future__ import annotations

from tilewright.lowering.entries import added_text, extents, matrix_tensors, pack_entry, tensor_entry, tile_permission
from tilewright.lowering.passes import prepack
from tilewright.lowering.passes.dynamic_workspace import BYTES
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY, OK, OUT_OF_MEMORY, WRONG_EXTENTS, WRONG_PACKING
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat
from tilewright.targets.base import Target

BODY = f"{ENTRY}_body"
PACK_BODY = f"{prepack.PACK}_body"
GET, RELEASE = "_mlir_memref_to_llvm_aligned_alloc", "_mlir_memref_to_llvm_free"
"""The functions that get (``ptr(i64 alignment, i64 bytes)``) and release (``void(ptr)``) scratch memory: those of MLIR's lowering."""
ALIGNMENT = 4096
"""Bytes, a page, of the workspace."""
_INDEX = 2
"""Which operand has the numbers of gathered rows: the first one after A and B."""
_TILES = "llvm.x86.tile"
"""What the names of AMX's intrinsics that move tiles begin with."""


def prepare_body(function: func.FuncOp, target: Target, *, tiles: bool = False) -> None:
    """Gives the payload's function, before it is lowered, a body's name and linkage, and the target's attributes.

    With `tiles`, LLVM makes no call of memset or memcpy out of its loops: a call loses the tiles' configuration, which
    would be loaded again after each.
    """
    name_body(function, PACK_BODY if function.name.value == prepack.PACK else BODY, target, tiles=tiles)


def name_body(function: func.FuncOp, body: str, target: Target, *, tiles: bool) -> None:
    """The same with a name."""
    attributes = {"sym_name": f'"{body}"', "llvm.linkage": "#llvm.linkage<internal>", **target_attributes(target)}
    if tiles:
        attributes["passthrough"] = '["no-builtins"]'
    for name, text in attributes.items():
        _tilewright.set_attribute(function.operation, name, text)


def add_entry(
    module: ir.Module,
    spec: MatmulSpec,
    target: Target,
    workspace: int,
    symbol: str,
    packed: PackedFormat | None = None,
    *,
    asks_for_tiles: bool = False,
    checked: bool = True,
) -> None:
    """Adds the C entry to a module with the lowered body.

    Args:
        module: The module after `pipelines.to_llvm`.
        spec: What it computes.
        target: For which target.
        workspace: Bytes of scratch memory that the body takes as its last argument; 0 for none.
        symbol: The C entry's name.
        packed: The format of B when it comes packed.
        asks_for_tiles: Whether the object asks for permission to use AMX, if it does, when it is loaded.
        checked: Whether the entry of two matrices checks the extents; otherwise whoever calls has.
    """
    dynamic = BYTES if any(added_text.name_of(op) == BYTES for op in added_text.ops(module)) else ""
    entries = _entry_text(spec, target, workspace, symbol, packed, dynamic, checked=checked)
    if packed is not None:
        entries += pack_entry.text(packed, PACK_BODY, symbol, attributes_text(target), transposed=spec.b_transposed)
    if asks_for_tiles and _TILES in str(module):
        entries += tile_permission.text()
    added_text.add(module, entries)


def target_attributes(target: Target) -> dict[str, str]:
    """The attributes that make LLVM decide by features, and never by a CPU's name, as MLIR text by name."""
    features = ", ".join(f'"{feature}"' for feature in target.feature_string.split(","))
    return {
        "target_cpu": f'"{target.cpu}"',
        "tune_cpu": f'"{target.tune_cpu}"',
        "prefer_vector_width": f'"{target.prefer_vector_width}"',
        "target_features": f"#llvm.target_features<[{features}]>",
    }


def attributes_text(target: Target) -> str:
    """The same as one text, as a function has it."""
    return ", ".join(f"{name} = {value}" for name, value in target_attributes(target).items())


def _descriptor(pointer: str, rows: str, columns: str, leading: str) -> str:
    """The arguments into which a two-dimensional memref is expanded: allocated, aligned, offset, sizes, strides."""
    return f"{pointer}, {pointer}, %zero, {rows}, {columns}, {leading}, %one"


def tensor_arguments(spec: MatmulSpec) -> list[tensor_entry.TensorArgument]:
    """The arguments of the entry of a kernel that takes tensors."""
    return [
        tensor_entry.TensorArgument(
            f"t{index}",
            each.stored,
            each.type.name,
            checked=not spec.b_packed or index != 1,
            batch=each.batch,
            passed=each.looped(spec.batch),
            written=index == len(spec.operands),
            names=each.names,
            below=spec.a_shape[0] if spec.gathers and index == _INDEX else 0,
        )
        for index, each in enumerate((*spec.operands, spec.result))
    ]


def matrix_arguments(spec: MatmulSpec) -> list[tuple[str, str]]:
    """Name and type of the arguments of the entry of a kernel that takes matrices, as `payload.abi.PROTOTYPE` has them."""
    matrices = [each for name in "abc" for each in ((name, "!llvm.ptr"), (f"ld{name}", "i64"))]
    return [*((name, "i64") for name in extents.NAMES), *matrices, *((each.name, "!llvm.ptr") for each in spec.scalars)]


def _entry_text(
    spec: MatmulSpec,
    target: Target,
    workspace: int,
    symbol: str,
    packed: PackedFormat | None,
    bytes_of: str,
    *,
    checked: bool,
) -> str:
    attributes = attributes_text(target)
    if spec.takes_tensors:
        arguments = tensor_arguments(spec)
        operands, types = [each.descriptor for each in arguments], [each.types for each in arguments]
        declarations, run = run_text(operands, types, workspace, packed, "%t1", bytes_of=bytes_of)
        return tensor_entry.text(symbol, arguments, attributes, declarations, run)
    memref = "!llvm.ptr, !llvm.ptr, i64, i64, i64, i64, i64"
    a, b = (("%k", "%m") if spec.a_transposed else ("%m", "%k")), (("%n", "%k") if spec.b_transposed else ("%k", "%n"))
    operands = [_descriptor("%a", *a, "%lda"), _descriptor("%b", *b, "%ldb")]
    operands += [f"%{each.name}, %{each.name}, %zero" for each in spec.scalars]
    operands.append(_descriptor("%c", "%m", "%n", "%ldc"))
    scalars = ["!llvm.ptr, !llvm.ptr, i64"] * len(spec.scalars)
    declarations, run = run_text(operands, [memref, memref, *scalars, memref], workspace, packed, bytes_of=bytes_of)
    bounds = {} if checked else extents.bounds(spec)  # Which the compiler does more with than with what is assumed.
    parameters = ", ".join(f"%{name}: {kind}{bounds.get(name, '')}" for name, kind in matrix_arguments(spec))
    return f"""
  {declarations}
  llvm.func @{symbol}({parameters}) -> i32 attributes {{{attributes}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %ok = llvm.mlir.constant({OK} : i32) : i32
    {extents.check(spec)}
    {_refused() if checked else "llvm.intr.assume %same : i1"}
    {run}
  }}
{matrix_tensors.text(spec, symbol, attributes) if spec.scalars else ""}"""


def _refused() -> str:
    """Returns at once where not ``%same``."""
    return f"""llvm.cond_br %same, ^fits, ^wrong
  ^wrong:
    %wrong_extents = llvm.mlir.constant({WRONG_EXTENTS} : i32) : i32
    llvm.return %wrong_extents : i32
  ^fits:"""


def run_text(
    operands: list[str],
    types: list[str],
    workspace: int,
    packed: PackedFormat | None,
    b: str = "%b",
    body: str = BODY,
    bytes_of: str = "",
) -> tuple[str, str]:
    """What an entry declares, and what it does once it knows its operands, the memrefs of the arguments of `body`.

    The function `bytes_of`, if there is one, tells how many bytes of workspace they need.
    """
    workspace_of = f"llvm.call @{bytes_of}({', '.join(operands)}) : ({', '.join(types)}) -> i64"
    # An empty B is never read, and stays what it was.
    if packed is not None and packed.nbytes > HEADER_BYTES:
        operands[1], types[1] = "%payload, %payload, %zero, %payload_bytes, %one", pack_entry.MEMREF
    if workspace or bytes_of:
        types.append("!llvm.ptr, !llvm.ptr, i64, i64, i64")
        operands.append("%w, %w, %zero, %bytes, %one")
    call = f"llvm.call @{body}({', '.join(operands)}) : ({', '.join(types)}) -> ()"
    if not (workspace or bytes_of):
        run = f"{call}\n    llvm.return %ok : i32"
    else:
        run = f"""%bytes = {workspace_of if bytes_of else f"llvm.mlir.constant({workspace} : i64) : i64"}
    %alignment = llvm.mlir.constant({ALIGNMENT} : i64) : i64
    %within_page = llvm.mlir.constant({ALIGNMENT - 1} : i64) : i64
    %pages = llvm.mlir.constant({-ALIGNMENT} : i64) : i64
    %beyond = llvm.add %bytes, %within_page : i64
    %rounded = llvm.and %beyond, %pages : i64
    %w = llvm.call @{GET}(%alignment, %rounded) : (i64, i64) -> !llvm.ptr
    %null = llvm.mlir.zero : !llvm.ptr
    %none = llvm.icmp "eq" %w, %null : !llvm.ptr
    llvm.cond_br %none, ^memory, ^run
  ^run:
    {call}
    llvm.call @{RELEASE}(%w) : (!llvm.ptr) -> ()
    llvm.return %ok : i32
  ^memory:
    %out_of_memory = llvm.mlir.constant({OUT_OF_MEMORY} : i32) : i32
    llvm.return %out_of_memory : i32"""
    declarations = (
        f"""llvm.func @{GET}(i64, i64) -> !llvm.ptr
  llvm.func @{RELEASE}(!llvm.ptr)"""
        if workspace or bytes_of
        else ""
    )
    if packed is not None:
        run = f"""{pack_entry.check(packed, b, "^alike", "^unlike")}
  ^unlike:
    %wrong_packing = llvm.mlir.constant({WRONG_PACKING} : i32) : i32
    llvm.return %wrong_packing : i32
  ^alike:
    {run}"""
    return declarations, run
