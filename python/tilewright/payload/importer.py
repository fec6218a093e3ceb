# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a user's .mlir file, one function with one matrix product, and returns its spec.

The file's ops are inspected one by one, and no pass runs on them. What is compiled is the payload that
`payload.matmul` builds for the spec.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.build import contexts
from tilewright.build.usedef import defined_by
from tilewright.dtypes import DTYPES, STORED
from tilewright.errors import SpecError
from tilewright.mlir import ir
from tilewright.payload import forms
from tilewright.payload.text import parse, place
from tilewright.spec import MatmulSpec

_ROLES = ("a", "b", "c")
C_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "main malloc free aligned_alloc memcpy memmove memset memcmp matmul_body"
)
TAKEN = frozenset(_TAKEN.split())
"""Names that a C compiler, or the code around the kernel, already uses."""
_FUNCTION_ATTRIBUTES = ("sym_name", "function_type", "sym_visibility", "arg_attrs")
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


@dataclass(frozen=True, slots=True)
class Imported:
    """What a .mlir file asks for.

    Attributes:
        spec: What its function computes.
        function: The function's name, and the symbol of the C entry made for it.
        text: The file's text.
        filename: The file's name.
        arguments: Which operand each of the function's arguments is: "a", "b" and, where C is an argument, "c", in the
            function's order. The C entry takes them in the order a, b, c whatever the function's.
    """

    spec: MatmulSpec
    function: str
    text: str
    filename: str
    arguments: tuple[str, ...] = _ROLES


def load(text: str, filename: str) -> Imported:
    """Reads a .mlir file with one function that holds one matrix product, on tensors or on memrefs.

    The product is a ``linalg.matmul``, or a ``linalg.generic`` over (m, n, k) that extends elements of A and B, multiplies
    and adds; its indexing maps may say that A or B is stored transposed; how elements are extended tells whether 8-bit
    integers have a sign. A ``linalg.fill`` of zero into C before it
    gives beta 0; without it, C is added to: beta 1. On tensors, C is an argument or a filled ``tensor.empty``, and the
    product is returned; it may be rounded first by an elementwise ``linalg.generic``, as `payload.matmul` writes it, and
    with beta 1 C is then extended by another one. Without that, a product of bf16 or f16 that adds to C of the same type is
    taken for one that is rounded once, when the sum, in f32, is complete.

    Element types are those of `MatmulSpec`, extents static; memrefs are row-major, with rows any distance apart.

    Args:
        text: The file's text.
        filename: The file's name, for errors.

    Raises:
        SpecError: The text is not valid MLIR, or anything in it is not as above; the error names the place as
            FILE:LINE:COLUMN.
    """
    with contexts.new() as context:
        reader = _Reader(filename)
        module = parse(text, filename, context)
        spec, function, arguments = reader.read(module)
    return Imported(spec, function, text, filename, arguments)


class _Reader:
    """Reads one module; keeps the file's name for errors."""

    def __init__(self, filename: str) -> None:
        self._filename = filename

    def read(self, module: ir.Module) -> tuple[MatmulSpec, str, tuple[str, ...]]:
        """The spec, the function's name, and the roles of its arguments."""
        self._refuse_attributes(module.operation, ("sym_name", "sym_visibility"))
        function = self._only_function(module)
        name = self._name(function)
        body = self._body(function)
        product = self._only_product(body, function)
        fill = next((op for op in body if op.name == "linalg.fill"), None)
        widening, rounding = self._conversions(body, product)
        adding = rounding if rounding and forms.conversion(rounding) == forms.ADDS_AND_ROUNDS else None
        spec = self._spec(product, rounding, beta=0 if fill and not adding else 1)
        self._check_product(product)
        c = self._check_fill(fill, product, body) if fill else product.operands[2]
        if adding and not fill:
            raise self._error("C is added to sums that do not start from zero", adding, expected=_EXPECTED)
        if rounding:
            c = self._check_rounding(rounding, widening, product, c)
        self._check_return(body[-1], rounding or product)
        return spec, name, self._roles(function, product, c)

    def _error(
        self, what: str, at: ir.Operation, *, expected: str | None = None, remedy: str | None = None
    ) -> SpecError:
        return SpecError(what, where=place(at.location, self._filename), expected=expected, remedy=remedy)

    def _refuse_attributes(self, op: ir.Operation, known: tuple[str, ...]) -> None:
        for name in op.attributes:
            if name not in known and not name.startswith("tilewright."):
                raise self._error(f"attribute {name} of {op.name} is not supported yet", op, remedy="Remove it")

    def _only_function(self, module: ir.Module) -> ir.Operation:
        ops = [op.operation for op in module.body.operations]
        if not ops:
            raise SpecError("no function", where=self._filename, expected="one func.func with one linalg.matmul")
        for op in ops:
            if op.name != "func.func":
                raise self._error(
                    f"{op.name} is not supported yet", op, expected="one func.func, and nothing beside it"
                )
        if len(ops) > 1:
            raise self._error(f"{len(ops)} functions", ops[1], expected="one", remedy="Put each in a file of its own")
        return ops[0]

    def _name(self, function: ir.Operation) -> str:
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if not C_IDENTIFIER.fullmatch(name) or name in TAKEN:
            raise self._error(
                f"the function is called {name!r}, which cannot be the name of a C function here",
                function,
                expected="a letter, then letters, digits and _, and no word that C has taken",
            )
        return name

    def _body(self, function: ir.Operation) -> list[ir.Operation]:
        """The ops of the function, each of a kind that can be part of a matrix product."""
        self._refuse_attributes(function, _FUNCTION_ATTRIBUTES)
        blocks = list(function.regions[0].blocks)
        if not blocks:
            raise self._error("the function has no body", function, expected="one linalg.matmul in it")
        body = [op.operation for block in blocks for op in block.operations]
        for op in body:
            if op.name not in _BODY:
                raise self._error(f"{op.name} is not supported yet", op, expected=_EXPECTED)
        if len(blocks) > 1:
            raise self._error("the function has several blocks", function, expected=_EXPECTED)
        return body

    def _only_product(self, body: list[ir.Operation], function: ir.Operation) -> ir.Operation:
        products = [op for op in body if op.name in ("linalg.matmul", "linalg.generic") and forms.reduces(op)]
        if not products:
            raise self._error("no linalg.matmul", function, expected=_EXPECTED)
        for name, found in (
            ("linalg.matmul", products),
            ("linalg.fill", [op for op in body if op.name == "linalg.fill"]),
        ):
            if len(found) > 1:
                raise self._error(f"{len(found)} ops {name}; this is the second", found[1], expected=_EXPECTED)
        return products[0]

    def _conversions(
        self, body: list[ir.Operation], product: ir.Operation
    ) -> tuple[ir.Operation | None, ir.Operation | None]:
        """The op that extends C before the product, and the one that rounds to C after it, if they are there."""
        found: dict[str, ir.Operation] = {}
        for op in body:
            if op.name != "linalg.generic" or op == product:
                continue
            self._refuse_attributes(op, ("operandSegmentSizes", "indexing_maps", "iterator_types"))
            kind = forms.conversion(op)
            rounds = kind in ("arith.truncf", forms.ADDS_AND_ROUNDS) and list(op.operands[:1]) == list(product.results)
            extends = kind == "arith.extf" and list(op.results) == [product.operands[2]]
            if kind is None or kind in found or not (rounds or extends):
                raise self._error("linalg.generic neither multiplies nor converts C", op, expected=_EXPECTED)
            found[kind] = op
        return found.get("arith.extf"), found.get("arith.truncf") or found.get(forms.ADDS_AND_ROUNDS)

    def _spec(self, product: ir.Operation, rounding: ir.Operation | None, beta: int) -> MatmulSpec:
        shapes = [self._shape(value, product) for value in product.operands]
        layout = forms.layout(product)
        if layout is None:
            what = f"{product.name} with indexing_maps is not supported yet"
            raise self._error(what, product, expected="A of M×K and B of K×N, each stored so or transposed")
        (m, k), (_, n) = (shape[::-1] if how == "t" else shape for shape, how in zip(shapes, layout, strict=False))
        extended = forms.extensions(product) or (None, None)
        a, b = (self._element(value, product, how) for value, how in zip(product.operands, extended, strict=False))
        c = self._element(rounding.operands[1] if rounding else product.operands[2], product)
        try:
            return MatmulSpec(m=m, n=n, k=k, a=a, b=b, c=c, layout=layout, beta=beta)
        except SpecError as error:
            raise self._error(error.what, product, expected=error.expected, remedy=error.remedy) from None

    def _shape(self, value: ir.Value, matmul: ir.Operation) -> tuple[int, int]:
        """The extents of an operand, whose type, a matrix in row-major order, is checked."""
        kind = value.type
        if not isinstance(kind, (ir.RankedTensorType, ir.MemRefType)) or kind.rank != 2:
            raise self._error(f"linalg.matmul of a {kind}", matmul, expected="matrices")
        if not kind.has_static_shape:
            raise self._error(
                f"a {kind}, with a dynamic extent, is not supported yet",
                matmul,
                expected="sizes",
                remedy="Compile one kernel for each size",
            )
        rows, columns = kind.shape
        if isinstance(kind, ir.RankedTensorType):
            if kind.encoding is not None:
                raise self._error(f"a {kind}, with an encoding, is not supported yet", matmul, expected="none")
        elif kind.memory_space is not None or not _is_row_major(kind):
            raise self._error(f"a {kind} is not supported yet", matmul, expected=_ROW_MAJOR)
        return rows, columns

    def _element(self, value: ir.Value, product: ir.Operation, extension: str | None = None) -> str:
        """The name in `dtypes` of an operand's element type; an unsigned integer is told by how it is extended."""
        element = str(ir.ShapedType(value.type).element_type)
        unsigned = extension == "arith.extui"
        for row in DTYPES.values():
            if row.mlir == element and (row.kind == "uint") == unsigned and element not in STORED and not row.part:
                return row.name
        known = ", ".join(dict.fromkeys(row.mlir for row in DTYPES.values() if row.mlir not in STORED and not row.part))
        raise self._error(f"elements of {element} are not supported yet", product, expected=f"one of {known}")

    def _check_product(self, product: ir.Operation) -> None:
        """Checks that it multiplies A by B as they are stored, and adds, and does nothing else."""
        self._refuse_attributes(product, ("operandSegmentSizes", "indexing_maps", "iterator_types", "cast"))
        if forms.extensions(product) is None:
            expected = "no region" if product.name == "linalg.matmul" else "c + a * b, with a and b extended or not"
            raise self._error(f"the region of {product.name} does not multiply and add", product, expected=expected)

    def _check_rounding(
        self, rounding: ir.Operation, widening: ir.Operation | None, product: ir.Operation, sums: ir.Value
    ) -> ir.Value:
        """Checks that a rounded product is of nothing, or of C extended, in a tensor of its own; returns C."""
        c = rounding.operands[1]
        if widening:
            if widening.operands[0] != c:
                raise self._error("it is not C that is extended and added to", widening, expected=_EXPECTED)
            sums = widening.operands[1]
        elif product.operands[2] == sums:
            raise self._error("the sums start from something else than C or zero", product, expected=_EXPECTED)
        if not defined_by(sums, "tensor.empty"):
            raise self._error("the sums before rounding are not in a tensor.empty", product, expected=_EXPECTED)
        return c

    def _check_fill(self, fill: ir.Operation, matmul: ir.Operation, body: list[ir.Operation]) -> ir.Value:
        """Checks that it clears C before the product; returns C before that."""
        self._refuse_attributes(fill, ("operandSegmentSizes",))
        value, c = fill.operands
        block = fill.regions[0].blocks[0]
        if [op.operation.name for op in block.operations] != ["linalg.yield"]:
            raise self._error("the region of linalg.fill does not just fill", fill, expected="no region")
        if not forms.is_zero(value):
            raise self._error("linalg.fill with something else than the constant 0.0 is not supported yet", fill)
        filled = fill.results[0] if len(fill.results) else c
        if matmul.operands[2] != filled or body.index(fill) > body.index(matmul):
            raise self._error("linalg.fill does not clear what linalg.matmul then adds to", fill, expected=_EXPECTED)
        return c

    def _check_return(self, last: ir.Operation, matmul: ir.Operation) -> None:
        returned, results = list(last.operands), list(matmul.results)
        if returned != results:
            expected = "the result of linalg.matmul" if results else "nothing: the product is in C"
            raise self._error("the function does not return its product", last, expected=expected)

    def _roles(self, function: ir.Operation, matmul: ir.Operation, c: ir.Value) -> tuple[str, ...]:
        """Which operand each argument is."""
        arguments = list(function.regions[0].blocks[0].arguments)
        operands = dict(zip(_ROLES, (matmul.operands[0], matmul.operands[1], c), strict=True))
        if defined_by(c, "tensor.empty"):
            if matmul.operands[2] == c:
                raise self._error("linalg.matmul adds to a tensor.empty", matmul, remedy="Fill it with zero first")
            del operands["c"]
        for role, value in operands.items():
            if value not in arguments:
                raise self._error(f"{role.upper()} is not an argument of the function", matmul, expected=_EXPECTED)
        found = [[role for role, value in operands.items() if value == argument] for argument in arguments]
        if any(len(roles) != 1 for roles in found):
            raise self._error(
                f"{len(arguments)} arguments for {', '.join(operands).upper()}",
                function,
                expected="one argument for each",
            )
        roles = tuple(role for (role,) in found)
        self._check_argument_attributes(function, roles)
        return roles

    def _check_argument_attributes(self, function: ir.Operation, roles: tuple[str, ...]) -> None:
        """Accepts the attributes that `payload.matmul` writes, and any leading dimension; others would change what is compiled."""
        if "arg_attrs" not in function.attributes:
            return
        for role, attributes in zip(roles, ir.ArrayAttr(function.attributes["arg_attrs"]), strict=True):
            for named in ir.DictAttr(attributes):
                fits = named.name == "bufferization.writable" and (role != "c" or str(named.attr) == "true")
                fits = fits or (named.name == "bufferization.buffer_layout" and _is_row_layout(named.attr))
                if not fits:
                    raise self._error(
                        f"attribute {named.name} = {named.attr} of argument {role.upper()} is not supported yet",
                        function,
                        remedy="Remove it",
                    )


_BODY = ("arith.constant", "tensor.empty", "linalg.fill", "linalg.matmul", "linalg.generic", "func.return")
_EXPECTED = "one linalg.matmul of the function's arguments, and before it at most a linalg.fill of C with zero"
_ROW_MAJOR = "row-major order in the default memory space, with the elements of a row beside one another"


def _is_row_major(kind: ir.MemRefType) -> bool:
    try:
        (row, column), offset = kind.get_strides_and_offset()
    except (RuntimeError, ValueError):
        return False
    return column == 1 and offset in (0, _DYNAMIC) and (row == _DYNAMIC or row >= kind.shape[1])


def _is_row_layout(attribute: ir.Attribute) -> bool:
    return bool(re.fullmatch(r"strided<\[(\?|\d+), 1\](, offset: \?)?>", str(attribute)))
