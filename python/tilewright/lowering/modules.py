# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lowers what stands between the products of a module, and joins both: products are functions that the rest calls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import LoweringError, ScheduleError
from tilewright.lowering import (
    driver,
    entry,
    half_floats,
    math_functions,
    narrow_stores,
    pack_entry,
    pipelines,
    tensor_entry,
    tile_permission,
    workspace,
)
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import arith, func, memref, transform
from tilewright.mlir.dialects.transform import structured
from tilewright.payload.abi import WRONG_PACKING
from tilewright.payload.modules.chains import PACKS
from tilewright.payload.modules.places import STAND_IN
from tilewright.payload.packing import HEADER_BYTES, PackedFormat
from tilewright.payload.signature import Signature
from tilewright.schedules import steps
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

TIDY = "builtin.module(canonicalize, cse)"
"""Before anything is looked at: indices become numbers, what nothing uses goes."""
GENERIC = "builtin.module(convert-elementwise-to-linalg, linalg-generalize-named-ops, canonicalize, cse)"
"""One form for all ops."""
FUSE = """builtin.module(
    linalg-inline-scalar-operands, linalg-fuse-elementwise-ops, canonicalize, cse, linalg-fuse-elementwise-ops, canonicalize, cse
)"""
"""What is elementwise becomes one op, where each result has one use."""
_WIDEN = """builtin.module(func.func(
    math-extend-to-supported-types, arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32}, canonicalize, cse
))"""
"""16-bit floats are computed with in f32, and rounded after each operation."""
_HOIST = "builtin.module(func.func(buffer-loop-hoisting))"
"""Buffers of what is computed in loops stand before them."""
_POINTER = "!llvm.ptr"
_INTERNAL = "#llvm.linkage<internal>"
_NATIVE_MATH = frozenset(
    f"math.{each}" for each in "absf absi ceil copysign ctlz cttz ctpop floor fma round roundeven rsqrt sqrt trunc".split()
)
"""Functions that processors have; others, as far as `math_functions` does not write them out, are the C library's."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product that was lowered.

    Attributes:
        spec: What it computes.
        body: Its module in the LLVM dialect, whose function is called `entry.BODY`; where B comes packed, another one,
            `entry.PACK_BODY`, packs it.
        workspace: Bytes of scratch memory that it takes.
        packed: The format of B when it comes packed.
    """

    spec: MatmulSpec
    body: ir.Module
    workspace: int
    packed: PackedFormat | None = None

    @property
    def operands(self) -> list[tuple[tuple[int, ...], str]]:
        """The shapes and MLIR's element types of what its function takes: operands, result, scratch memory."""
        found = [(each.shape, each.type.mlir) for each in (*self.spec.operands, self.spec.result)]
        if self.packed is not None:
            found[1] = (self.packed.nbytes - HEADER_BYTES,), "i8"
        return found + ([((self.workspace,), "i8")] if self.workspace else [])


def decompose(module: ir.Module) -> None:
    """Makes softmax the reductions and elementwise ops that it consists of.

    Raises:
        LoweringError: It failed.
    """
    with steps.script() as script:
        kind = transform.AnyOpType.get()
        structured.DecomposeInterfaceOp(kind, steps.match(script.root, "linalg.softmax"))
    driver.run_own_script(module, script.module, "payload")


def apply_schedule(module: ir.Module, schedule: ir.Module) -> None:
    """Applies the schedule of what is left between products.

    Raises:
        ScheduleError: It does not fit.
    """
    driver.run_passes(module, _WIDEN, "scheduled")
    try:
        driver.run_own_script(module, schedule, "scheduled")
    except LoweringError as error:
        raise ScheduleError(error.what, where="nests") from None


def bufferize(module: ir.Module, products: Sequence[Product]) -> int:
    """Takes the one function of `module` to memrefs, and lets it call its products.

    Returns the bytes of workspace that it then needs.

    Raises:
        LoweringError: Bufferisation failed.
    """
    function = _function(module)
    driver.make_private(function)
    driver.run_own_script(module, pipelines.bufferize(), "bufferized")
    driver.run_passes(module, pipelines.DROP_RESULT, "bufferized")
    function = _function(module)
    if function.type.results:
        raise LoweringError("a result is not computed into its argument", stage="bufferized")
    driver.run_passes(module, _HOIST, "bufferized")
    with function.context, function.location:
        _call_products(_function(module), products)
    driver.run_passes(module, pipelines.TIDY_BUFFERS, "bufferized")
    size = workspace.gather(_function(module), reuse=True)
    driver.run_passes(module, pipelines.DEALLOCATE, "bufferized")
    return size


def _function(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body if isinstance(op, func.FuncOp) and not op.is_external)


def _marked(function: func.FuncOp, mark: str) -> list[tuple[ir.Operation, int]]:
    """The ops that have a number as the attribute `mark`, and that number."""
    found: list[tuple[ir.Operation, int]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if mark in op.attributes:
            found.append((op, ir.IntegerAttr(op.attributes[mark]).value))
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _call_products(function: func.FuncOp, products: Sequence[Product]) -> None:
    """Replaces what stands for products by calls, of functions that are declared before `function`."""
    calls, packs = _marked(function, STAND_IN), _marked(function, PACKS)
    most, scratch = max((products[number].workspace for _, number in calls), default=0), None
    if most:
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            scratch = _bytes(most)
    for number in sorted({number for _, number in calls}):
        _declare(function, symbol(number), products[number].operands)
    for op, number in packs:
        product = products[number]
        size = product.operands[1]
        _declare(function, f"{symbol(number)}_pack", [(product.spec.b_shape, product.spec.b_stored.mlir), size])
        handle = op.operands[1]
        with ir.InsertionPoint(handle.owner), op.location:
            packed = _bytes(size[0][0])
        handle.replace_all_uses_with(packed)
        with ir.InsertionPoint(op), op.location:
            source = _as_passed(op.operands[0], product.spec.b_shape)
            _call(f"{symbol(number)}_pack", [source, _as_passed(packed, size[0])])
        op.erase()
    for op, number in calls:
        product = products[number]
        with ir.InsertionPoint(op), op.location:
            values = [
                _as_passed(value, shape) for value, (shape, _) in zip(op.operands, product.operands, strict=False)
            ]
            if scratch is not None and product.workspace:
                # All products take theirs from the same bytes, one after the other.
                values.append(_reinterpreted(scratch, [product.workspace], [0], _passed([product.workspace], "i8")))
            _call(symbol(number), values)
        op.erase()


def _declare(function: func.FuncOp, name: str, operands: Sequence[tuple[tuple[int, ...], str]]) -> None:
    types = [_passed(shape, element) for shape, element in operands]
    with ir.InsertionPoint(function):
        func.FuncOp(name, ir.FunctionType.get(types, []), visibility="private")


def _call(name: str, values: list[ir.Value]) -> None:
    func.CallOp([], ir.FlatSymbolRefAttr.get(name), values)


def _bytes(count: int) -> ir.Value:
    return memref.AllocOp(ir.MemRefType.get([count], ir.IntegerType.get_signless(8)), [], []).memref


def symbol(number: int) -> str:
    """The name of the function of product `number`."""
    return f"product{number}"


def _passed(shape: Sequence[int], element: str) -> ir.Type:
    """The type of an operand of a product: rows anywhere, elements of a row side by side."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides = [dynamic] * (len(shape) - 1) + [1] * bool(shape)
    return ir.MemRefType.get(list(shape), ir.Type.parse(element), ir.StridedLayoutAttr.get(dynamic, strides))


def _as_passed(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A memref with the shape that a product takes, which has dimensions of extent one that `value` may lack."""
    given = list(ir.MemRefType(value.type).shape)
    if len(given) == len(shape) == 1:  # Bytes, of which nobody knew how many there are.
        given = list(shape)
    sources: list[int | None] = []
    rest = list(range(len(given)))
    for position, extent in enumerate(shape):
        needed = len(shape) - position - 1
        if rest and given[rest[0]] == extent and (extent != 1 or len(rest) > needed):
            sources.append(rest.pop(0))
        else:
            sources.append(None)
    element = str(ir.MemRefType(value.type).element_type)
    return _reinterpreted(value, shape, sources, _passed(shape, element))


def _reinterpreted(value: ir.Value, shape: Sequence[int], sources: Sequence[int | None], kind: ir.Type) -> ir.Value:
    """`value` as a memref of type `kind`, of whose axes each is one of `value`, or new and of extent one."""
    given = ir.MemRefType(value.type)
    index = ir.IndexType.get()
    base = ir.MemRefType.get([], given.element_type)
    results = [base, *[index] * (1 + 2 * given.rank)]
    metadata = ir.Operation.create("memref.extract_strided_metadata", results=results, operands=[value]).results
    # The last stride is one, and the type says it; so is that of an axis of one element.
    strides = [metadata[2 + given.rank + axis] if axis is not None else _one() for axis in sources[:-1]]
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get([dynamic]),
        "static_sizes": ir.DenseI64ArrayAttr.get(list(shape)),
        "static_strides": ir.DenseI64ArrayAttr.get([dynamic] * len(strides) + [1] * bool(shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 0, len(strides)]),
    }
    operands = [metadata[0], metadata[1], *strides]
    return ir.Operation.create(
        "memref.reinterpret_cast", results=[kind], operands=operands, attributes=attributes
    ).results[0]


def _one() -> ir.Value:
    return arith.constant(ir.IndexType.get(), 1)


def to_llvm(module: ir.Module, name: str, target: Target) -> None:
    """Takes a bufferised module to the LLVM dialect; its function is then called `name`.

    Raises:
        LoweringError: A pass failed.
    """
    driver.run_own_script(module, pipelines.lower_vectors(target.vector_bits // 32, ()), "llvm")
    attributes = {"sym_name": f'"{name}"', "llvm.linkage": _INTERNAL, **entry.target_attributes(target)}
    for key, text in attributes.items():
        _tilewright.set_attribute(_function(module).operation, key, text)
    text = str(module)
    halves = [each for each in half_floats.CONVERTERS if re.search(rf"\b{each}\b|x{each}\b", text)]
    with module.context:
        if "f16" in halves and half_floats.CONVERTERS["f16"].isdisjoint(target.features):
            half_floats.expand_f16(module.operation)
        if "bf16" in halves and half_floats.CONVERTERS["bf16"].isdisjoint(target.features):
            driver.run_passes(module, half_floats.EXPAND_BF16, "llvm")
        left = math_functions.expand(module.operation, target)
    if left or _calls_library(module):
        driver.run_passes(module, math_functions.F64, "llvm")
    driver.run_passes(module, pipelines.TO_LLVM, "llvm")
    with module.context:
        if "avx512bw" in target.features:
            narrow_stores.protect(module.operation)
        if halves:
            half_floats.move_as_integers(module.operation)


def _calls_library(module: ir.Module) -> bool:
    """Whether a function of the C library's is needed."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("math.") and op.name not in _NATIVE_MATH:
            found.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return bool(found)


def join(
    functions: Mapping[str, tuple[Signature, ir.Module]],
    products: Sequence[Product],
    target: Target,
    allocator: tuple[str, str],
) -> ir.Module:
    """One module of the functions' bodies and the products', with a C entry for each function.

    Args:
        functions: By the name of its body, each function's signature and module, in the LLVM dialect.
        products: The products, numbered as the functions call them.
        target: For which target.
        allocator: Where entries get their workspace.
    """
    texts: list[str] = []
    declared: dict[str, str] = {}
    for number, product in enumerate(products):
        texts.append(_named(str(product.body), f"{symbol(number)}_"))
        name = symbol(number)
        texts.append(_wrapper(name, f"{name}_{entry.BODY}", product.operands, target))
        if product.packed is not None:
            operands = [(product.spec.b_shape, product.spec.b_stored.mlir), product.operands[1]]
            texts.append(_wrapper(f"{name}_pack", f"{name}_{entry.PACK_BODY}", operands, target))
    owned = [f"{symbol(number)}{suffix}" for number in range(len(products)) for suffix in ("", "_pack")]
    for _, module in functions.values():
        texts.append(_named(str(module), "", own=owned))
    body = "\n".join(_without_repeats(text, declared) for text in texts)
    entries = "".join(_entry(signature, name, target, allocator, declared) for name, (signature, _) in functions.items())
    if allocator == driver.LIBC_ALLOCATOR and "llvm.x86.tile" in body:
        entries += tile_permission.text()
    declarations = "\n".join(declared.values())
    with ir.Location.unknown():
        first = next(iter(functions.values()))[1]
        return ir.Module.parse(f"{body}\n{declarations}\n{entries}", first.context)


_NAMES = re.compile(r"%(header|found|unlike|any|alike|payload_bytes|payload)\b")
"""What `pack_entry.check` defines, once for each B that comes packed."""
_DECLARATION = re.compile(r"^  llvm\.func @(\w+)\([^{}\n]*\)[^{}\n]*(?:attributes \{[^\n]*\})?$")
_DEFINITION = re.compile(r"^  llvm\.(?:func|mlir\.global)\b[^@\n]*@(\w+)[^\n]*$", re.MULTILINE)


def _named(text: str, prefix: str, own: Sequence[str] = ()) -> str:
    """The body of a module's text, in which what it defines has names that begin with `prefix`.

    Declarations of the functions `own`, which others define, are left out.
    """
    lines = text.strip().split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("module"))
    head, inner = lines[:first], lines[first + 1 : -1]
    kept = [line for line in inner if not any(re.match(rf"  llvm\.func @{each}\(", line) for each in own)]
    aliases = dict(re.match(r"(#\w+) = (.*)", line).groups() for line in head if line.startswith("#"))
    body = "\n".join(kept)
    for alias, value in aliases.items():
        body = re.sub(rf"{re.escape(alias)}\b", lambda _, value=value: value, body)
    defined = [
        match.group(1) for match in _DEFINITION.finditer(body) if prefix and not _DECLARATION.match(match.group(0))
    ]
    for name in defined:
        body = re.sub(rf"@{re.escape(name)}\b", f"@{prefix}{name}", body)
    return body


def _without_repeats(text: str, declared: dict[str, str]) -> str:
    """A text without the declarations of functions, which are gathered in `declared`."""
    kept = []
    for line in text.split("\n"):
        found = _DECLARATION.match(line)
        if found:
            declared.setdefault(found.group(1), line)
        else:
            kept.append(line)
    return "\n".join(kept)


def _wrapper(name: str, body: str, operands: Sequence[tuple[tuple[int, ...], str]], target: Target) -> str:
    """The function `name` that the rest calls: its memrefs may start anywhere, those of `body` at their pointer."""
    parameters, passed, lines = [], [], []
    ranks = [(len(shape), element) for shape, element in operands]
    for at, (rank, element) in enumerate(ranks):
        names = [f"%p{at}_{each}" for each in range(3 + 2 * rank)]
        kinds = [_POINTER, _POINTER, *["i64"] * (1 + 2 * rank)]
        parameters += [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
        lines.append(f"%q{at} = llvm.getelementptr {names[1]}[{names[2]}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}")
        start = [f"%q{at}", f"%q{at}", "%zero", *names[3:]]
        passed += list(zip(start, kinds, strict=True))
    values, kinds = ", ".join(value for value, _ in passed), ", ".join(kind for _, kind in passed)
    starts = "\n    ".join(lines)
    return f"""  llvm.func internal @{name}({", ".join(parameters)}) attributes {{{entry.attributes_text(target)}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    {starts}
    llvm.call @{body}({values}) : ({kinds}) -> ()
    llvm.return
  }}"""


def _entry(
    signature: Signature, body: str, target: Target, allocator: tuple[str, str], declared: dict[str, str]
) -> str:
    """The C entry of a function, the one that takes an array of tensors, and those that pack what it takes packed."""
    arguments = [
        tensor_entry.TensorArgument(
            f"t{index}",
            each.shape,
            each.element,
            checked=not each.packed,
            written=each.written,
            compact=each.compact,
        )
        for index, each in enumerate(signature.parameters)
    ]
    operands, types = [each.descriptor for each in arguments], [each.types for each in arguments]
    checks, packers = [], ""
    for index, each in enumerate(signature.parameters):
        if each.packed:
            packed = PackedFormat.from_header(bytes.fromhex(each.format))
            check = pack_entry.check(packed, f"%t{index}", f"^alike{index}", "^unlike")
            check = _NAMES.sub(lambda name, index=index: f"{name.group(0)}{index}", check)
            checks.append(f"{check}\n  ^alike{index}:\n    ")
            packer = f"{symbol(each.packed - 1)}_{entry.PACK_BODY}"
            name = f"{signature.name}_{each.name}"
            attributes = entry.attributes_text(target)
            packers += pack_entry.text(packed, packer, name, attributes, transposed=each.transposed)
            operands[index] = f"%payload{index}, %payload{index}, %zero, %payload_bytes{index}, %one"
    declarations, run = entry.run_text(operands, types, signature.workspace, allocator, None, body=body)
    run = "".join(checks) + run
    if checks:
        run += f"""
  ^unlike:
    %wrong_packing = llvm.mlir.constant({WRONG_PACKING} : i32) : i32
    llvm.return %wrong_packing : i32"""
    for line in declarations.split("\n"):
        if line.strip():
            declared.setdefault(line[line.index("@") + 1 : line.index("(")], f"  {line.strip()}")
    return tensor_entry.text(signature.name, arguments, entry.attributes_text(target), "", run) + packers
