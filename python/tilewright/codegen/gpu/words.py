# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of less than 32 bits for devices whose memory and registers have 32: in words of a buffer, and one by one in words.

Not every Vulkan device has memory or arithmetic of 8 and 16 bits, and none has any of 4. Upstream's conversion to SPIR-V takes i8
and i16 to 32 bits, but no floats, and no vectors.
"""

from __future__ import annotations

from tilewright.build.constants import bits_of, element_of, like
from tilewright.build.index import Index, div_rem, mul, value
from tilewright.build.usedef import operations, replace, terminator
from tilewright.errors import LoweringError
from tilewright.lowering.types import half_floats, small_floats
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

WORD = 32


def is_narrow(element: ir.Type, below: int = WORD) -> bool:
    """Whether elements of a type have fewer bits, but are more than true or false."""
    return isinstance(element, ir.IntegerType | ir.FloatType) and 1 < element.width < below


def load(buffer: ir.Value, place: Index, element: ir.Type) -> ir.Value:
    """Element number `place` of a buffer of words."""
    bits = bits_of(element)
    word, shift = _where(place, bits)
    found = arith.shrui(memref.load(buffer, [word]), shift)
    return as_element(element, arith.andi(found, _word((1 << bits) - 1)))


def store(element: ir.Value, buffer: ir.Value, place: Index) -> None:
    """Writes element number `place`; other threads may write others in the same word meanwhile."""
    bits = bits_of(element.type)
    word, shift = _where(place, bits)
    new = arith.shli(arith.extui(_word_type(), _code(element)), shift)
    mask = arith.xori(arith.shli(_word((1 << bits) - 1), shift), _word(-1))
    memref.atomic_rmw(arith.AtomicRMWKind.andi, mask, buffer, [word])
    memref.atomic_rmw(arith.AtomicRMWKind.ori, new, buffer, [word])


def expand(function: ir.Operation, below: int = WORD) -> None:
    """Computes with elements of fewer than `below` bits one by one, in words, and writes out the conversions of floats.

    Before: ``%y = arith.extf %x : vector<4xf16> to vector<4xf32>``. After, for each element: ``%y0 = f32 of the bits of %x0``.
    """
    for op in operations(function):
        _widen_codes(op)
    if below == WORD:
        half_floats.expand_f16(function)
    for op in operations(function):
        if op.name != "func.func" and op.results and _is_elementwise(op, below):
            with ir.InsertionPoint(op), op.location:
                _one_by_one(op)
    for op in operations(function):
        if op.name == "scf.if" and any(_is_narrow_vector(each.type, below) for each in op.results):
            with op.location:
                _yield_words(op, below)
    for op in operations(function):
        if op.name == "arith.select" and is_narrow(op.results[0].type, below):
            with ir.InsertionPoint(op), op.location:
                _select(op)


def settle(function: ir.Operation) -> None:
    """Computes in words what is widened from a few of their bits, once what `expand` leaves has been simplified.

    Before: ``extsi (trunci %word : i8) : i32``. After: ``(%word << 24) >> 24``.
    """
    for op in operations(function):
        with op.location:
            _in_words(op)


def through_f32(function: ir.Operation) -> None:
    """Makes narrow integers narrow floats by way of 32 bits, which hold all of both.

    Before: ``sitofp %x : i4 to bf16``. After: ``truncf (sitofp (extsi %x : i32) : f32) : bf16``.
    """
    for op in operations(function):
        if op.name not in _FROM_INTEGER:
            continue
        source, result = op.operands[0], op.results[0]
        with ir.InsertionPoint(op), op.location:
            if is_narrow(element_of(source)):
                source = _FROM_INTEGER[op.name][0](like(source.type, "i32"), source)
            wide = result.type
            if is_narrow(element_of(result)):
                wide = like(wide, "f32")
            made = _FROM_INTEGER[op.name][1](wide, source)
            result.replace_all_uses_with(made if wide == result.type else arith.truncf(result.type, made))
        op.erase()


_FROM_INTEGER = {"arith.uitofp": (arith.extui, arith.uitofp), "arith.sitofp": (arith.extsi, arith.sitofp)}


def _widen_codes(op: ir.Operation) -> None:
    """Floats of four bits, by their codes."""
    if op.name == "arith.extf" and str(element_of(op.operands[0])) == "f4E2M1FN":
        with ir.InsertionPoint(op), op.location:
            kind = op.operands[0].type
            code = arith.extui(like(kind, "i8"), arith.bitcast(like(kind, "i4"), op.operands[0]))
            replace(op, small_floats.from_f4_code(code, op.results[0].type))


def _is_elementwise(op: ir.Operation, below: int) -> bool:
    """Whether an op computes element by element of vectors, of which some are narrow."""
    kinds = [each.type for each in (*op.operands, *op.results)]
    if not op.name.startswith("arith.") or not all(isinstance(kind, ir.VectorType) for kind in kinds):
        return False
    return op.name != "arith.constant" and any(is_narrow(ir.VectorType(kind).element_type, below) for kind in kinds)


def _one_by_one(op: ir.Operation) -> None:
    kind = ir.VectorType(op.results[0].type)
    if kind.rank != 1:
        raise LoweringError(f"{op.name} on {kind}", stage="spirv", expected="vectors of one axis")
    attributes = {name: op.attributes[name] for name in op.attributes}
    elements = []
    for each in range(kind.shape[0]):
        operands = [_element(operand, each) for operand in op.operands]
        one = ir.Operation.create(op.name, results=[kind.element_type], operands=operands, attributes=attributes)
        elements.append(one.results[0])
    replace(op, vector.from_elements(kind, elements))


def _element(of: ir.Value, number: int) -> ir.Value:
    constant = of.owner
    if isinstance(constant, ir.Operation | ir.OpView) and constant.operation.name == "arith.constant":
        splat = ir.DenseElementsAttr(constant.operation.attributes["value"]).get_splat_value()
        return arith.constant(ir.VectorType(of.type).element_type, splat)
    return vector.extract(of, [], [number])


def _is_narrow_vector(kind: ir.Type, below: int) -> bool:
    return isinstance(kind, ir.VectorType) and is_narrow(kind.element_type, below)


def _yield_words(op: ir.Operation, below: int) -> None:
    """Makes what the branches of a condition give vectors of words."""
    for number, result in enumerate(op.results):
        if not _is_narrow_vector(result.type, below):
            continue
        kind = ir.VectorType(result.type)
        words = ir.VectorType.get(kind.shape, _word_type())
        for region in op.regions:
            block = region.blocks[0]
            end = terminator(block)
            with ir.InsertionPoint(end):
                codes = [_code(_element(end.operands[number], each)) for each in range(kind.shape[0])]
                end.operands[number] = vector.from_elements(words, [arith.extui(_word_type(), each) for each in codes])
        with ir.InsertionPoint.after(op):
            placeholder = ir.Operation.create(
                "ub.poison", results=[kind], attributes={"value": ir.Attribute.parse("#ub.poison")}
            )
        result.replace_all_uses_with(placeholder.results[0])
        result.set_type(words)
        with ir.InsertionPoint(placeholder):
            elements = [
                as_element(kind.element_type, vector.extract(result, [], [each])) for each in range(kind.shape[0])
            ]
            replace(placeholder, vector.from_elements(kind, elements))


def _select(op: ir.Operation) -> None:
    """Selects words."""
    condition, *values = op.operands
    wide = [arith.extui(_word_type(), _code(each)) for each in values]
    replace(op, as_element(op.results[0].type, arith.select(condition, *wide)))


def _code(element: ir.Value) -> ir.Value:
    """The bits of an element, as an integer of as many."""
    if not isinstance(element.type, ir.FloatType):
        return element
    kind, owner = ir.IntegerType.get_signless(bits_of(element.type)), element.owner
    if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "arith.constant":
        if ir.FloatAttr(owner.operation.attributes["value"]).value != 0:
            raise LoweringError(f"a constant of {element.type}", stage="spirv", expected="zero")
        return arith.constant(kind, 0)
    return arith.bitcast(kind, element)


def _in_words(op: ir.Operation) -> None:
    """What is widened from a few bits of a word, computed in the word."""
    if op.name not in ("arith.extui", "arith.extsi") or not is_narrow(op.operands[0].type):
        return
    cut = op.operands[0].owner.operation if isinstance(op.operands[0].owner, ir.Operation | ir.OpView) else None
    if cut is None or cut.name != "arith.trunci" or cut.operands[0].type != _word_type():
        return
    bits, source = bits_of(op.operands[0].type), cut.operands[0]
    with ir.InsertionPoint(op):
        if op.name == "arith.extui":
            wide = arith.andi(source, _word((1 << bits) - 1))
        else:
            up = _word(WORD - bits)
            wide = arith.shrsi(arith.shli(source, up), up)
        kind = op.results[0].type
        replace(op, wide if kind == _word_type() else arith.trunci(kind, wide))


def _where(place: Index, bits: int) -> tuple[ir.Value, ir.Value]:
    """In which word an element is, and how many bits are below it there."""
    word, rest = div_rem(place, WORD // bits)
    return value(word), arith.index_cast(_word_type(), value(mul(rest, bits)))


def as_element(element: ir.Type, word: ir.Value) -> ir.Value:
    """The element whose bits are the lowest of a word."""
    code = arith.trunci(ir.IntegerType.get_signless(bits_of(element)), word)
    return arith.bitcast(element, code) if isinstance(element, ir.FloatType) else code


def _word_type() -> ir.IntegerType:
    return ir.IntegerType.get_signless(WORD)


def _word(number: int) -> ir.Value:
    return arith.constant(_word_type(), number)
