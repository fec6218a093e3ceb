# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bindings: what upstream leaves out, the dialect's attributes, translation, and one MLIR in the process."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs._tilewright import translate_to_llvmir
from tilewright.mlir.dialects import tilewright as tw
from tilewright.mlir.dialects import transform

TARGET = '#tilewright.target<name = "x86-64-v3", triple = "x86_64-linux-gnu", features = "+avx2", vector_bits = 256>'


@pytest.fixture
def context():
    with ir.Context() as context, ir.Location.unknown():
        yield context


def constant(type_text: str, value: str = "0.0") -> ir.Value:
    """A dense or scalar constant, the operand of an op under test."""
    type_ = ir.Type.parse(type_text)
    literal = f"dense<{value}> : {type_text}" if "x" in type_text else f"{value} : {type_text}"
    return ir.Operation.create("arith.constant", [type_], attributes={"value": ir.Attribute.parse(literal)}).result


# One op of every dialect and transform extension that upstream's bindings leave out: module, op name, builder.
DIALECTS: list[tuple[str, str, Callable]] = [
    ("x86vector", "x86vector.avx.rsqrt", lambda m: m.RsqrtOp(constant("vector<8xf32>"))),
    ("amx", "amx.tile_zero", lambda m: m.TileZeroOp(ir.Type.parse("!amx.tile<16x16xf32>"))),
    (
        "arm_neon",
        "arm_neon.intr.smull",
        lambda m: m.SMullOp(ir.Type.parse("vector<8xi16>"), *[constant("vector<8xi8>", "1")] * 2),
    ),
    (
        "arm_sve",
        "arm_sve.sdot",
        lambda m: m.SdotOp(
            ir.Type.parse("vector<[4]xi32>"),
            constant("vector<[4]xi32>", "1"),
            *[constant("vector<[16]xi8>", "1")] * 2,
        ),
    ),
    ("arm_sme", "arm_sme.zero", lambda m: m.ZeroOp(ir.Type.parse("vector<[4]x[4]xf32>"))),
    ("mpi", "mpi.init", lambda m: m.InitOp(retval=ir.Type.parse("!mpi.retval"))),
]


@pytest.mark.parametrize(("module", "name", "build"), DIALECTS, ids=[row[0] for row in DIALECTS])
def test_dialect_builds_an_op(context, module, name, build):
    dialect = importlib.import_module(f"tilewright.mlir.dialects.{module}")
    body = ir.Module.create()
    with ir.InsertionPoint(body.body):
        build(dialect)
    assert name in str(body)
    assert body.operation.verify()


# One op of every transform extension that upstream's bindings leave out, and of ours: module, op name, builder.
EXTENSIONS: list[tuple[str, str, Callable]] = [
    ("affine", "transform.affine.simplify_min_max_affine_ops", lambda m, root: m.SimplifyMinMaxAffineOpsOp(root)),
    ("func", "transform.func.cast_and_call", lambda m, root: cast_and_call(m, root)),
    (
        "dlti",
        "transform.dlti.query",
        lambda m, root: m.QueryOp(transform.AnyParamType.get(), root, [ir.StringAttr.get("CPU")]),
    ),
    ("match", "transform.match.structured", lambda m, root: match_structured(m, root)),
    (
        "x86vector",
        "transform.apply_patterns.x86vector.vector_contract_to_fma",
        lambda m, root: apply(root, m.ApplyVectorContractToFMAPatternsOp),
    ),
    (
        "arm_neon",
        "transform.apply_patterns.arm_neon.vector_contract_to_i8mm",
        lambda m, root: apply(root, m.ApplyArmNeonContractionToI8MMPatternsOp),
    ),
    (
        "arm_sve",
        "transform.apply_patterns.arm_sve.vector_contract_to_i8mm",
        lambda m, root: apply(root, m.ApplyArmSVELowerContractionToI8MMPatternsOp),
    ),
    ("tilewright", "transform.tilewright.annotate", lambda m, root: m.AnnotateOp(root, ir.Attribute.parse(TARGET))),
]


def apply(root: ir.Value, patterns: Callable) -> None:
    """transform.apply_patterns with one pattern op in it."""
    with ir.InsertionPoint(transform.ApplyPatternsOp(root).patterns):
        patterns()


def cast_and_call(module, root: ir.Value) -> None:
    op = module.CastAndCallOp(transform.AnyOpType.get(), root, function_name="f")
    op.regions[0].blocks.append()


def match_structured(module, root: ir.Value) -> None:
    op = module.MatchStructuredOp([], root)
    with ir.InsertionPoint(op.regions[0].blocks.append(transform.AnyOpType.get())):
        module.MatchStructuredYieldOp([])


@pytest.mark.parametrize(("module", "name", "build"), EXTENSIONS, ids=[row[0] for row in EXTENSIONS])
def test_transform_extension_builds_an_op(context, module, name, build):
    extension = importlib.import_module(f"tilewright.mlir.dialects.transform.{module}")
    body = ir.Module.create()
    body.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
    with ir.InsertionPoint(body.body):
        main = transform.NamedSequenceOp(
            "__transform_main",
            [transform.AnyOpType.get()],
            [],
            arg_attrs=[{"transform.consumed": ir.UnitAttr.get()}],
        )
        with ir.InsertionPoint(main.body):
            build(extension, main.bodyTarget)
            transform.YieldOp()
    assert name in str(body)
    assert body.operation.verify()


def test_target_attribute_round_trips(context):
    made = tw.TargetAttr.get("x86-64-v3", "x86_64-linux-gnu", "+avx2", vector_bits=256)
    parsed = ir.Attribute.parse(TARGET)
    assert isinstance(parsed, tw.TargetAttr)
    assert parsed == made
    assert (made.name, made.triple, made.features) == ("x86-64-v3", "x86_64-linux-gnu", "+avx2")
    assert (made.tune_cpu, made.vector_bits, made.prefer_vector_width) == ("", 256, 0)


def test_schedule_attribute_round_trips(context):
    parameters = ir.DictAttr.get({"mr": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 6)})
    made = tw.ScheduleAttr.get("packed", parameters, "packed.py:41")
    assert isinstance(ir.Attribute.parse(str(made)), tw.ScheduleAttr)
    assert (made.strategy, made.source, made.parameters) == ("packed", "packed.py:41", parameters)
    assert len(tw.ScheduleAttr.get("packed").parameters) == 0


def test_invalid_attributes_are_refused_with_the_reason(context):
    with pytest.raises(ir.MLIRError, match="features: expected"):
        tw.TargetAttr.get("t", "x86_64-linux-gnu", "avx2")
    with pytest.raises(ir.MLIRError, match="source: expected FILE:LINE"):
        tw.ScheduleAttr.get("packed", source="packed.py")


def test_every_context_knows_the_dialect_and_its_pass(context):
    from tilewright.mlir.passmanager import PassManager

    module = ir.Module.parse('module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s">} {}')
    PassManager.parse("builtin.module(tilewright-strip-provenance)").run(module.operation)
    assert "tilewright" not in str(module)


def test_translation_gives_llvm_ir(context):
    module = ir.Module.parse("llvm.func @f(%a: i64) -> i64 { llvm.return %a : i64 }")
    assert "define i64 @f(i64 %0)" in translate_to_llvmir(module.operation)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("func.func @f() { return }", "func.func"),
        ("llvm.func @f(%a: i64) { %0 = arith.addi %a, %a : i64  llvm.return }", "arith.addi"),
        (
            "llvm.func @f(%a: i64) { %0 = builtin.unrealized_conversion_cast %a : i64 to index  llvm.return }",
            "unrealized_conversion_cast",
        ),
    ],
)
def test_what_cannot_be_translated_raises(context, text, reason):
    module = ir.Module.parse(text)
    with pytest.raises(RuntimeError, match=re.escape(reason)):
        translate_to_llvmir(module.operation)


def test_translation_of_what_is_no_module_raises(context):
    module = ir.Module.parse("llvm.func @f() { llvm.return }")
    with pytest.raises(RuntimeError):
        translate_to_llvmir(module.body.operations[0])


def loaded_after(statement: str) -> set[str]:
    """The libraries of LLVM and MLIR that a fresh process has mapped after a statement, by real path."""
    program = f"{statement}\nprint(*{{l.split()[-1] for l in open('/proc/self/maps') if '.so' in l}}, sep='\\n')"
    lines = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    return {line for line in lines if re.search(r"/lib(MLIR|LLVM)[^/]*\.so", line) and "Python" not in line}


def test_one_mlir_and_one_llvm_in_the_process():
    names = sorted(
        re.sub(r"[-.].*", "", path.rsplit("/", 1)[1])
        for path in loaded_after(
            "import importlib, pathlib, tilewright.mlir._mlir_libs as libs\n"
            "for path in pathlib.Path(libs.__file__).parent.glob('_*.so'):\n"
            "    importlib.import_module(f'{libs.__name__}.{path.name.split(chr(46))[0]}')\n"
            "import tilewright._codegen"
        )
    )
    assert names == ["libLLVM", "libMLIR"]


def test_codegen_needs_no_mlir():
    assert [path for path in loaded_after("import tilewright._codegen") if "libMLIR" in path] == []
