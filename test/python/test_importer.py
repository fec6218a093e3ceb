# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A .mlir file becomes the spec of its one matmul, or an error that names the op and its place; never a crash."""

import random
import re
from dataclasses import asdict

import pytest
from tilewright.dtypes import COMBINATIONS
from tilewright.errors import SpecError
from tilewright.mlir import ir
from tilewright.payload import importer, matmul
from tilewright.spec import MatmulSpec

TENSORS = """\
func.func @mm(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %clear = linalg.fill ins(%zero : f32) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>)
                     outs(%clear : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
"""
MEMREFS = """\
func.func @mm(%a: memref<4x8xf32>, %b: memref<8x16xf32>, %c: memref<4x16xf32>) {
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x16xf32>) outs(%c : memref<4x16xf32>)
  return
}
"""
FILL = """\
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<4x16xf32>)
"""
SPEC = MatmulSpec(4, 16, 8)


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """`text` with replacements that all apply."""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def filled_memrefs(fill: str = FILL) -> str:
    """`MEMREFS` with ops before the matmul."""
    return replaced(MEMREFS, ("  linalg.matmul", fill + "  linalg.matmul"))


def test_filled_tensors_are_beta_0():
    assert importer.load(TENSORS, "mm.mlir") == importer.Imported(SPEC, "mm", TENSORS, "mm.mlir", ("a", "b", "c"))


def test_tensors_that_are_added_to_are_beta_1():
    text = replaced(TENSORS, ("outs(%clear", "outs(%c"))
    text = "\n".join(line for line in text.splitlines() if "%clear" not in line)
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 8, beta=1)


def test_memrefs():
    assert importer.load(MEMREFS, "mm.mlir").spec == MatmulSpec(4, 16, 8, beta=1)
    assert importer.load(filled_memrefs(), "mm.mlir").spec == SPEC


def test_f64_and_a_module_around():
    text = f"module @m {{\n{replaced(TENSORS, ('f32', 'f64'))}}}\n"
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 8, a="f64")


def test_extents_may_be_zero():
    text = replaced(TENSORS, ("x8xf32", "x0xf32"), ("<8x", "<0x"))
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 0)


def test_the_result_may_be_a_new_tensor():
    text = replaced(
        TENSORS,
        (", %c: tensor<4x16xf32>)", ")"),
        ("  %clear", "  %c = tensor.empty() : tensor<4x16xf32>\n  %clear"),
    )
    imported = importer.load(text, "mm.mlir")
    assert (imported.spec, imported.arguments) == (SPEC, ("a", "b"))


@pytest.mark.parametrize("text", [TENSORS, MEMREFS])
def test_arguments_in_another_order(text):
    head, body = text.split(" {\n", 1)
    a, b, c = re.findall(r"%\w: \w+<\w+>", head)
    head = head.replace(a, "A").replace(b, "B").replace(c, "C")
    head = head.replace("A", c).replace("B", a).replace("C", b)
    assert importer.load(f"{head} {{\n{body}", "mm.mlir").arguments == ("c", "a", "b")


@pytest.mark.parametrize(
    "layout",
    [
        "strided<[100, 1]>",
        "strided<[?, 1]>",
        "strided<[?, 1], offset: ?>",
        "strided<[8, 1]>",
        "affine_map<(i, j) -> (i * 32 + j)>",
        "affine_map<(i, j)[s] -> (i * s + j)>",
    ],
)
def test_rows_may_be_apart(layout):
    assert importer.load(replaced(MEMREFS, ("4x8xf32", f"4x8xf32, {layout}")), "mm.mlir").spec.beta == 1


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("types", COMBINATIONS, ids=str)
def test_what_we_print_is_read_again(types, beta):
    spec = MatmulSpec(4, 16, 8, **asdict(types), beta=beta)
    text = str(matmul.build(spec, ir.Context()))
    imported = importer.load(text, "payload.mlir")
    assert (imported.spec, imported.function) == (spec, "matmul")


def of_integers(extend_a: str, extend_b: str) -> str:
    """A product of 8-bit integers as a ``linalg.generic``, in other orders than ours."""
    return f"""func.func @mm(%a: memref<4x8xi8>, %b: memref<8x16xi8>, %c: memref<4x16xi32>) {{
  linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                    affine_map<(m, n, k) -> (m, n)>],
                   iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : memref<4x8xi8>, memref<8x16xi8>) outs(%c : memref<4x16xi32>) {{
  ^bb0(%x: i8, %y: i8, %sum: i32):
    %v = arith.{extend_b} %y : i8 to i32
    %u = arith.{extend_a} %x : i8 to i32
    %p = arith.muli %v, %u : i32
    %s = arith.addi %p, %sum : i32
    linalg.yield %s : i32
  }}
  return
}}
"""


SIGNS = {"extsi": "i8", "extui": "u8"}


@pytest.mark.parametrize("extend_a", SIGNS)
@pytest.mark.parametrize("extend_b", SIGNS)
def test_how_integers_are_extended_tells_their_signs(extend_a, extend_b):
    spec = MatmulSpec(4, 16, 8, a=SIGNS[extend_a], b=SIGNS[extend_b], beta=1)
    assert importer.load(of_integers(extend_a, extend_b), "mm.mlir").spec == spec


def test_matmul_of_integers_says_unsigned_by_its_cast():
    text = replaced(MEMREFS, ("4x8xf32", "4x8xi8"), ("8x16xf32", "8x16xi8"), ("f32", "i32"))
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 8, a="i8", beta=1)
    text = replaced(text, ("linalg.matmul", "linalg.matmul {cast = #linalg.type_fn<cast_unsigned>}"))
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 8, a="u8", beta=1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_16_bits_are_rounded_once(dtype):
    assert importer.load(replaced(TENSORS, ("f32", dtype)), "mm.mlir").spec == MatmulSpec(4, 16, 8, a=dtype, c=dtype)


ROUNDED = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @matmul(%arg0: tensor<4x8xbf16>, %arg1: tensor<8x16xbf16>, %arg2: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  %0 = tensor.empty() : tensor<4x16xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%arg2 : tensor<4x16xbf16>) outs(%0 : tensor<4x16xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %4 = arith.extf %in : bf16 to f32
    linalg.yield %4 : f32
  } -> tensor<4x16xf32>
  %2 = linalg.matmul ins(%arg0, %arg1 : tensor<4x8xbf16>, tensor<8x16xbf16>)
      outs(%1 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<4x16xf32>) outs(%arg2 : tensor<4x16xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %4 = arith.truncf %in : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x16xbf16>
  return %3 : tensor<4x16xbf16>
}
"""


def test_c_is_extended_before_or_added_after_the_product():
    spec = MatmulSpec(4, 16, 8, a="bf16", c="bf16", beta=1)
    assert importer.load(ROUNDED, "mm.mlir").spec == spec
    assert importer.load(str(matmul.build(spec, ir.Context())), "mm.mlir").spec == spec


ADDED = str(matmul.build(MatmulSpec(4, 16, 8, a="bf16", c="bf16", beta=1), ir.Context()))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (replaced(of_integers("extsi", "extsi"), ("muli %v, %u", "muli %v, %v")), "does not multiply and add"),
        (replaced(of_integers("extsi", "extsi"), ("addi %p, %sum", "addi %p, %p")), "does not multiply and add"),
        (replaced(of_integers("extsi", "extsi"), ("arith.addi", "arith.subi")), "does not multiply and add"),
        (
            replaced(
                of_integers("extsi", "extsi"), ("(m, n, k) -> (m, n)", "(m, n, k) -> (n, m)"), ("4x16xi32", "16x4xi32")
            ),
            "with indexing_maps",
        ),
        (
            replaced(
                ROUNDED, ("ins(%arg2 :", "ins(%e :"), ("  %0 =", "  %e = tensor.empty() : tensor<4x16xbf16>\n  %0 =")
            ),
            "not C that is extended",
        ),
        (replaced(ROUNDED, ("outs(%1 :", "outs(%0 :")), "linalg.generic neither multiplies nor converts C"),
        (replaced(ROUNDED, ("ins(%2 :", "ins(%1 :")), "linalg.generic neither multiplies nor converts C"),
        (replaced(ROUNDED, ("return %3", "return %arg2")), "does not return its product"),
        (replaced(ADDED, ("arith.addf", "arith.subf")), "neither multiplies nor converts C"),
    ],
)
def test_other_regions_and_conversions_are_refused(text, match):
    with pytest.raises(SpecError, match=match):
        importer.load(text, "mm.mlir")


@pytest.mark.parametrize(
    ("a", "b", "layout"),
    [("(m, k)", "(k, n)", "nn"), ("(k, m)", "(k, n)", "tn"), ("(m, k)", "(n, k)", "nt"), ("(k, m)", "(n, k)", "tt")],
)
def test_transposed_operands_are_layouts(a, b, layout):
    extents = {"m": 4, "n": 16, "k": 8}
    shapes = ["x".join(str(extents[each]) for each in map_.strip("()").split(", ")) for map_ in (a, b)]
    maps = ", ".join(f"affine_map<(m, n, k) -> {each}>" for each in (a, b, "(m, n)"))
    text = f"""func.func @mm(%a: memref<{shapes[0]}xf32>, %b: memref<{shapes[1]}xf32>, %c: memref<4x16xf32>) {{
  linalg.matmul indexing_maps = [{maps}] ins(%a, %b : memref<{shapes[0]}xf32>, memref<{shapes[1]}xf32>) outs(%c : memref<4x16xf32>)
  return
}}"""
    assert importer.load(text, "mm.mlir").spec == MatmulSpec(4, 16, 8, layout=layout, beta=1)


def test_the_generic_form_is_the_same():
    with ir.Context() as context:
        text = str(ir.Module.parse(TENSORS, context).operation.get_asm(print_generic_op_form=True))
    assert '"linalg.matmul"' in text
    assert importer.load(text, "mm.mlir").spec == SPEC


def test_other_places_in_locations_are_kept():
    text = replaced(TENSORS, ("4x8x", "?x8x"), ("(%clear : tensor<4x16xf32>) ->", "(%clear : tensor<4x16xf32>) ->"))
    text = replaced(
        text,
        ("  return", "  return"),
        ("-> tensor<4x16xf32>\n  return", '-> tensor<4x16xf32> loc("x.py":3:4)\n  return'),
    )
    with pytest.raises(SpecError, match=r"^x\.py:3:4: "):
        importer.load(text, "mm.mlir")
    with pytest.raises(SpecError, match=r"^mm\.mlir: "):
        importer.load(text.replace('loc("x.py":3:4)', "loc(unknown)"), "mm.mlir")


GENERIC = """\
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%0 : tensor<4x16xf32>) {
  ^bb0(%x: f32):
    %2 = arith.negf %x : f32
    linalg.yield %2 : f32
  } -> tensor<4x16xf32>
"""
TRANSPOSED = (
    "linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, "
    "affine_map<(m, n, k) -> (m, n)>]"
)

REFUSED = {
    "nothing": ("", r"mm\.mlir: no function; expected one func\.func with one linalg\.matmul"),
    "no words": ("what is this", r"mm\.mlir:1:1: not valid MLIR: custom op 'what' is unknown"),
    "cut off": (TENSORS[:200], r"mm\.mlir:3:\d+: not valid MLIR: expected"),
    "does not verify": (
        replaced(TENSORS, ("%b: tensor<8x16xf32>", "%b: tensor<9x16xf32>"), ("tensor<8x16xf32>)", "tensor<9x16xf32>)")),
        r"mm\.mlir:4:8: not valid MLIR: .*inferred",
    ),
    "unregistered dialect": ('"a.b"() : () -> ()', r"mm\.mlir:1:6: not valid MLIR: .*unregistered dialect"),
    "lone surrogate": ("func.func @mm()\n \udcff", r"mm\.mlir:2:2: not UTF-8 text"),
    "two functions": (TENSORS + replaced(TENSORS, ("@mm", "@nn")), r"mm\.mlir:8:1: 2 functions; expected one"),
    "a declaration": ("func.func private @mm()", r"mm\.mlir:1:1: the function has no body"),
    "beside it": (f"{TENSORS}module {{}}", r"mm\.mlir:8:1: builtin\.module is not supported yet; expected one func"),
    "a global": ("memref.global @g : memref<4xf32>", r"mm\.mlir:1:1: memref\.global is not supported yet"),
    "no matmul": ("func.func @mm() {\n  return\n}", r"mm\.mlir:1:1: no linalg\.matmul; expected one linalg\.matmul"),
    "two matmuls": (
        replaced(MEMREFS, ("  return", MEMREFS.splitlines()[1] + "\n  return")),
        r"mm\.mlir:3:3: 2 ops linalg\.matmul; this is the second",
    ),
    "two fills": (filled_memrefs(FILL + FILL.splitlines()[1] + "\n"), r"mm\.mlir:4:3: 2 ops linalg\.fill"),
    "an elementwise op": (
        replaced(TENSORS, ("  return %0", GENERIC + "  return %1")),
        r"mm\.mlir:6:8: linalg\.generic neither multiplies nor converts C",
    ),
    "another product": (
        "func.func @mm(%a: memref<4x8xf32>, %x: memref<8xf32>, %y: memref<4xf32>) {\n"
        "  linalg.matvec ins(%a, %x : memref<4x8xf32>, memref<8xf32>) outs(%y : memref<4xf32>)\n  return\n}",
        r"mm\.mlir:2:3: linalg\.matvec is not supported yet; expected one linalg\.matmul of the function's arguments",
    ),
    "several blocks": (
        replaced(MEMREFS, ("  return", "  cf.br ^end\n^end:\n  return")),
        r"mm\.mlir:3:3: cf\.br is not supported yet",
    ),
    "unreachable block": (replaced(MEMREFS, ("  return", "  return\n^end:\n  return")), "1:1: .* several blocks"),
    "a dynamic extent": (
        replaced(MEMREFS, ("4x8", "?x8")),
        r"mm\.mlir:2:3: a memref<\?x8xf32>, with a dynamic extent, is not supported yet; expected sizes",
    ),
    "integers of another width": (
        replaced(MEMREFS, ("f32", "i16")),
        r"elements of i16 are not supported yet|unknown element type 'i16'|A of i16",
    ),
    "integers not extended": (
        replaced(MEMREFS, ("f32", "i8")),
        r"2:3: A of i8, B of i8 .* to C of i8 is not supported",
    ),
    "mixed types": (
        replaced(MEMREFS, ("16xf32>) {", "16xf64>) {"), ("outs(%c : memref<4x16xf32", "outs(%c : memref<4x16xf64")),
        r"mm\.mlir:2:3: A of f32, B of f32 summed in f32 to C of f64 is not supported yet",
    ),
    "too large": (
        replaced(MEMREFS, ("4x", "2147483648x")),
        r"mm\.mlir:2:3: m is 2147483648; expected an extent from 0 to 2147483647",
    ),
    "columns": (replaced(MEMREFS, ("4x8xf32", "4x8xf32, strided<[1, 4]>")), "2:3: a memref<.*expected row-major order"),
    "overlapping rows": (replaced(MEMREFS, ("4x8xf32", "4x8xf32, strided<[4, 1]>")), "expected row-major order"),
    "an offset": (replaced(MEMREFS, ("4x8xf32", "4x8xf32, strided<[8, 1], offset: 3>")), "expected row-major order"),
    "a strange map": (
        replaced(MEMREFS, ("4x8xf32", "4x8xf32, affine_map<(i, j) -> (i floordiv 2, j, i mod 2)>")),
        "expected row-major order",
    ),
    "a memory space": (replaced(MEMREFS, ("4x8xf32", "4x8xf32, 3")), "expected row-major order in the default memory"),
    "an encoding": (
        replaced(TENSORS, ("4x8xf32", "4x8xf32, 5")),
        "2:8|4:8: a tensor<4x8xf32, 5 : i64>, with an encoding",
    ),
    "a result transposed": (
        replaced(
            MEMREFS, ("linalg.matmul", TRANSPOSED), ("-> (m, n)>]", "-> (n, m)>]"), ("4x8", "8x4"), ("4x16", "16x4")
        ),
        r"mm\.mlir:2:3: linalg\.matmul with indexing_maps is not supported yet; expected A of M×K",
    ),
    "an attribute of the matmul": (
        replaced(MEMREFS, ("linalg.matmul", "linalg.matmul {hint = 1}")),
        r"mm\.mlir:2:3: attribute hint of linalg\.matmul is not supported yet\. Remove it",
    ),
    "an attribute of the function": (
        replaced(MEMREFS, (") {", ") attributes {llvm.emit_c_interface} {")),
        r"mm\.mlir:1:1: attribute llvm\.emit_c_interface of func\.func is not supported yet",
    ),
    "an attribute of the module": (
        f"module attributes {{dlti.x = 1}} {{\n{MEMREFS}}}",
        r"mm\.mlir:1:1: (not valid MLIR|attribute dlti\.x of builtin\.module)",
    ),
    "an attribute of a result": (
        replaced(TENSORS, ("-> tensor<4x16xf32> {\n", '-> (tensor<4x16xf32> {bufferization.access = "none"}) {\n')),
        r"mm\.mlir:1:1: (not valid MLIR|attribute res_attrs of func\.func)",
    ),
    "a bufferization attribute": (
        replaced(TENSORS, ("%c: tensor<4x16xf32>", "%c: tensor<4x16xf32> {bufferization.writable = false}")),
        r"mm\.mlir:1:1: attribute bufferization\.writable = false of argument C is not supported yet\. Remove it",
    ),
    "a layout of columns": (
        replaced(
            TENSORS, ("%c: tensor<4x16xf32>", "%c: tensor<4x16xf32> {bufferization.buffer_layout = strided<[1, 4]>}")
        ),
        r"attribute bufferization\.buffer_layout = strided<\[1, 4\]> of argument C",
    ),
    "another argument attribute": (
        replaced(MEMREFS, ("%c: memref<4x16xf32>", "%c: memref<4x16xf32> {llvm.noalias}")),
        r"attribute llvm\.noalias = unit of argument C",
    ),
    "not a C name": (replaced(MEMREFS, ("@mm", '@"m m"')), r"1:1: the function is called 'm m', which cannot be"),
    "a C keyword": (replaced(MEMREFS, ("@mm", "@static")), r"1:1: the function is called 'static'"),
    "a name the kernel calls": (replaced(MEMREFS, ("@mm", "@free")), r"1:1: the function is called 'free'"),
    "a fill with one": (
        replaced(filled_memrefs(), ("0.0", "1.0")),
        r"mm\.mlir:3:3: linalg\.fill with something else than the constant 0\.0 is not supported yet",
    ),
    "a fill with minus zero": (replaced(filled_memrefs(), ("0.0", "-0.0")), "something else than the constant 0.0"),
    "a fill with an argument": (
        replaced(filled_memrefs(FILL.splitlines()[1] + "\n"), ("(%a:", "(%zero: f32, %a:")),
        "something else than the constant 0.0",
    ),
    "a fill that converts": (
        replaced(filled_memrefs(), ("0.0 : f32", "0.0 : f64"), ("%zero : f32", "%zero : f64")),
        r"mm\.mlir:3:3: not valid MLIR: .*expected fill value type",
    ),
    "a fill of A": (
        replaced(
            filled_memrefs(),
            ("outs(%c : memref<4x16xf32>)\n  linalg.matmul", "outs(%a : memref<4x8xf32>)\n  linalg.matmul"),
        ),
        r"mm\.mlir:3:3: linalg\.fill does not clear what linalg\.matmul then adds to",
    ),
    "a fill afterwards": (
        replaced(MEMREFS, ("  return", FILL + "  return")),
        r"mm\.mlir:4:3: linalg\.fill does not clear what linalg\.matmul then adds to",
    ),
    "a fill that is not used": (replaced(TENSORS, ("outs(%clear", "outs(%c")), r"3:12: linalg\.fill does not clear"),
    "an empty tensor": (
        replaced(
            "\n".join(line for line in TENSORS.splitlines() if "%clear =" not in line),
            ("outs(%clear", "outs(%e"),
            ("  %zero", "  %e = tensor.empty() : tensor<4x16xf32>\n  %zero"),
        ),
        r"mm\.mlir:4:8: linalg\.matmul adds to a tensor\.empty\. Fill it with zero first",
    ),
    "another result": (
        replaced(TENSORS, ("return %0", "return %clear")),
        "6:3: the function does not return its product",
    ),
    "a returned memref": (
        replaced(MEMREFS, (") {", ") -> memref<4x16xf32> {"), ("return", "return %c : memref<4x16xf32>")),
        "3:3: the function does not return its product; expected nothing: the product is in C",
    ),
    "an operand from elsewhere": (
        replaced(TENSORS, ("  %0", "  %d = arith.constant dense<1.0> : tensor<4x8xf32>\n  %0"), ("ins(%a", "ins(%d")),
        r"mm\.mlir:5:8: A is not an argument of the function",
    ),
    "an argument too many": (
        replaced(MEMREFS, ("(%a:", "(%x: index, %a:")),
        "1:1: 4 arguments for A, B, C; expected one",
    ),
    "one argument twice": (
        "func.func @mm(%a: memref<4x4xf32>, %c: memref<4x4xf32>) {\n"
        "  linalg.matmul ins(%a, %a : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>)\n  return\n}",
        r"1:1: 2 arguments for A, B, C; expected one argument for each",
    ),
}


@pytest.mark.parametrize(("text", "match"), REFUSED.values(), ids=REFUSED.keys())
def test_anything_else_is_refused_with_its_place(text, match):
    with pytest.raises(SpecError, match=match) as caught:
        importer.load(text, "mm.mlir")
    message = str(caught.value)
    assert message.startswith("mm.mlir:")
    assert "\n" not in message
    assert "None" not in message


def test_a_region_that_is_no_product_is_refused():
    with ir.Context() as context:
        text = str(ir.Module.parse(MEMREFS, context).operation.get_asm(print_generic_op_form=True))
    assert importer.load(text, "mm.mlir").spec.beta == 1
    with pytest.raises(SpecError, match=r"mm\.mlir:\d+:\d+: not valid MLIR: expected add/mul op in the body"):
        importer.load(replaced(text, ("%arg3, %arg4)", "%arg3, %arg3)")), "mm.mlir")
    with pytest.raises(SpecError, match=r"the region of linalg\.matmul does not multiply and add"):
        importer.load(replaced(text, ("fastmath<none>", "fastmath<fast>")), "mm.mlir")


def test_a_region_that_does_not_fill_is_refused():
    with ir.Context() as context:
        text = str(ir.Module.parse(filled_memrefs(), context).operation.get_asm(print_generic_op_form=True))
    text = re.sub(
        r'"linalg.yield"\((%\w+)\)', r'%x = "arith.negf"(\1) : (f32) -> f32 "linalg.yield"(%x)', text, count=1
    )
    with pytest.raises(SpecError, match=r"the region of linalg\.fill does not just fill"):
        importer.load(text, "mm.mlir")


DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "#a = " + "[" * DEEP,
        "#a = " + "{a = " * DEEP,
        "#a = loc(" + 'callsite("a" at ' * DEEP,
        "module {" * DEEP + "}" * DEEP,
        '"builtin.module"() ({' * DEEP,
        "#m = affine_map<(i) -> (" + "-" * DEEP + "i)>",
        "#m = affine_map<(i) -> (" + "i + " * DEEP + "i)>",
        "#m = affine_map<(i) -> (i" + " mod 2" * DEEP + ")>",
        "#m = affine_map<(i) -> (" + "((i) + " * DEEP,
        '#a = ")" // ]\n' + '["]" // ]\n' * DEEP,
        "func.func @f(" + "!llvm.struct<(" * DEEP,
        "#a = [" + "(" * 100 + ")" * 100 + "(" * 300,
    ],
    ids=lambda text: text[:24],
)
def test_deep_text_is_refused_before_it_is_parsed(text):
    with pytest.raises(SpecError, match=r"^mm\.mlir:\d+:\d+: more than 256 nested brackets and operators"):
        importer.load(text, "mm.mlir")


def test_long_text_that_is_not_deep_is_parsed():
    rows = "\n".join(["-1.0 * [(2 + 3), {x = -4}], // -- ( - ["] * 2000)
    with pytest.raises(SpecError, match="not valid MLIR"):
        importer.load(rows, "mm.mlir")
    assert importer.load("// (((" + "(" * 5000 + "\n" + TENSORS, "mm.mlir").spec == SPEC


def test_very_long_text_is_refused():
    with pytest.raises(SpecError, match=r"mm\.mlir: \d+ characters; expected at most"):
        importer.load(TENSORS + " " * (1 << 22), "mm.mlir")


TOKEN = re.compile(r"[\w.%@]+|\s+|->|.", re.DOTALL)


@pytest.mark.parametrize("seed", range(4))
def test_broken_text_is_refused_or_read(seed):
    chance = random.Random(seed)
    for _ in range(50):
        tokens = TOKEN.findall(
            chance.choice(
                [TENSORS, MEMREFS, filled_memrefs(), replaced(TENSORS, ("  return %0", GENERIC + "  return %1"))]
            )
        )
        for _ in range(chance.randint(1, 5)):
            one, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
            match chance.randrange(4):
                case 0:
                    tokens[one] = tokens[other]
                case 1:
                    tokens[one] = ""
                case 2:
                    tokens[one], tokens[other] = tokens[other], tokens[one]
                case _:
                    tokens[one] += chance.choice(
                        ["?", "0", "-", "<", ">", "{", "loc(unknown)", "99999999999", "\0", "é"]
                    )
        text = "".join(tokens)
        try:
            imported = importer.load(text, "mm.mlir")
        except SpecError:
            continue
        assert isinstance(imported.spec, MatmulSpec)
