# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is fused around a product: prologues, gathered rows, gated linear units, softmax and reductions of rows."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from fusion_forms import GATHERS, GLUS, PROLOGUES, ROWS, check, operands
from processes import in_new_process
from products import LEVELS, TARGETS
from tilewright.build import usedef
from tilewright.emit import stages
from tilewright.errors import OperandError, ScheduleError, SpecError
from tilewright.lowering.passes import pack_together
from tilewright.mlir import ir
from tilewright.schedules import make
from tilewright.schedules.models.blocking import panel_bytes
from tilewright.targets import resolve

FORMS = {
    f"{kind}: {name}": fields
    for kind, forms in (("prologue", PROLOGUES), ("gather", GATHERS), ("glu", GLUS), ("rows", ROWS))
    for name, fields in forms.items()
}
EMULATED = [name for name in ("neoverse-n1", "neoverse-n2") if name in TARGETS]


@pytest.mark.parametrize("form", FORMS)
def test_numbers(form):
    # A block of rows of its own, and a short last one; columns that fill no vector.
    check(tw.MatmulSpec(37, 70, 45, **FORMS[form]))
    check(tw.MatmulSpec(70, 201, 33, **FORMS[form]), parameters={"mc": 24})


def test_loops_that_pack_are_found_before_one_is_changed(monkeypatch):
    # What is done to a panel after its rows has loops here, which are made anew: nothing may look at the old ones.
    seen = []
    for step in ("_packing", "_take_together"):
        original = getattr(pack_together, step)
        monkeypatch.setattr(
            pack_together, step, lambda *given, step=step, original=original: (seen.append(step), original(*given))[1]
        )
    spec, target = tw.MatmulSpec(70, 201, 33, **FORMS["glu: gathered"]), tw.targets.get("x86-64-v4")
    stages.build(spec, target, make.make(spec, target, "packed", {"mc": 24}), until="bufferized")
    assert "_take_together" in seen
    assert "_packing" not in seen[seen.index("_take_together") :]


@pytest.mark.parametrize("form", ["prologue: functions", "prologue: i8 weights", "glu: silu", "rows: prologue"])
def test_operands_that_are_stored_transposed(form):
    check(tw.MatmulSpec(37, 70, 45, layout="tt", **FORMS[form]))


@pytest.mark.parametrize("form", ["prologue: functions", "gather: f32", "glu: bf16", "rows: softmax", "rows: row_sum"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 0), (64, 64, 64)], ids=lambda shape: "x".join(map(str, shape)))
def test_extents_of_one_and_none_and_of_whole_tiles(form, shape):
    check(tw.MatmulSpec(*shape, **FORMS[form]))


def test_empty_results():
    for m, n in ((0, 3), (3, 0)):
        for form in ("rows: softmax", "rows: row_sum", "rows: row_max of integers", "glu: silu"):
            check(tw.MatmulSpec(m, n, 4, **FORMS[form]))


@pytest.mark.parametrize("form", ["prologue: functions", "gather: f32", "glu: silu", "rows: softmax", "rows: row_max"])
def test_threads(form):
    spec = tw.MatmulSpec(256, 512, 256, **FORMS[form])
    check(spec, threads=2)
    assert "omp.parallel" in tw.compile(spec, threads=2).asm["bufferized"]


@pytest.mark.parametrize("form", ["prologue: functions", "glu: silu", "rows: softmax and more", "rows: row_sum"])
def test_batches(form):
    check(tw.MatmulSpec(9, 35, 12, batch=(2, 3), b_batch=(3,), **FORMS[form]))


def test_a_dimension_of_one_is_no_batch():
    """What a prologue makes of a B that all entries share has no batch, and may have a first extent of one."""
    check(tw.MatmulSpec(97, 2, 1, batch=(3, 1), b_batch=(1,), prologue_b=(tw.silu(),)))
    check(tw.MatmulSpec(1, 2, 5, batch=(3,), a_batch=(), prologue_a=(tw.silu(),), epilogue=(tw.relu(),)))


@pytest.mark.parametrize("target", [*(each for each in LEVELS if each not in EMULATED), *EMULATED])
@pytest.mark.parametrize("form", ["prologue: bf16", "gather: bytes", "glu: bytes", "rows: softmax and more"])
def test_other_targets(form, target):
    check(tw.MatmulSpec(19, 35, 12, **FORMS[form]), target)


def test_a_packed_b_remembers_what_was_done_to_it():
    fields = {"b": "i8", "b_packed": True, "epilogue": (tw.bias(),)}
    kernels = [
        tw.compile(tw.MatmulSpec(9, 35, 12, prologue_b=(tw.cast("f32"), tw.scale(by)), **fields)) for by in (0.5, 2)
    ]
    check(kernels[0].spec)
    a, b, bias = operands(kernels[0].spec)
    with pytest.raises(OperandError, match="packed"):
        kernels[1](a, kernels[0].pack_b(b), bias)


@pytest.mark.parametrize("index", ["i32", "i64"])
def test_numbers_of_no_row_are_refused(index):
    kernel = tw.compile(tw.MatmulSpec(9, 20, 12, prologue_a=(tw.gather_rows(5, index),)))
    table, b, rows = operands(kernel.spec)
    limits = np.iinfo(rows.dtype)
    for at, number in ((0, -1), (8, 5), (4, limits.max), (3, limits.min)):
        wrong = rows.copy()
        wrong[at] = number
        out = np.full((9, 20), 7, np.float32)
        with pytest.raises(OperandError, match="operand index: an index is out of range"):
            kernel(table, b, wrong, out=out)
        assert (out == 7).all()
        with pytest.raises(OperandError, match="an index is out of range; expected indices from 0 to 4"):
            tw.reference(kernel.spec, table, b, wrong)
    np.testing.assert_allclose(kernel(table, b, index=rows), table[rows] @ b, rtol=1e-5, atol=1e-6)


def test_the_c_entry_returns_a_status_for_a_number_of_no_row():
    from test_kernel_epilogues import _DLTensor, dltensor

    kernel = tw.compile(tw.MatmulSpec(9, 20, 12, prologue_a=(tw.gather_rows(5),)))
    table, b, rows = operands(kernel.spec)
    c = np.zeros((9, 20), np.float32)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.POINTER(_DLTensor)] * 4)(kernel.c_function.address)
    for number, status in ((4, 0), (5, 5)):
        rows[-1] = number
        tensors = [dltensor(table), dltensor(b), dltensor(rows, code=0), dltensor(c)]
        assert entry(*map(ctypes.byref, tensors)) == status


def softmax(x: np.ndarray) -> np.ndarray:
    """NumPy's words for it."""
    with np.errstate(all="ignore"):
        parts = np.exp(x - x.max(axis=1, keepdims=True))
        return parts / parts.sum(axis=1, keepdims=True)


def test_rows_of_numbers_that_are_none():
    """NaN and Inf go where NumPy has them, and only into their row."""
    a = np.random.default_rng(0).uniform(-1, 1, (8, 5)).astype(np.float32)
    a[1, 2], a[2, 0], a[3, 1] = np.nan, np.inf, -np.inf
    b, added = np.eye(5, 37, dtype=np.float32) + 1, np.zeros((8, 37), np.float32)
    added[4, 3], added[5, 36], added[6, :], added[7, 7] = -np.inf, np.inf, -np.inf, 3e38
    with np.errstate(all="ignore"):
        x = a @ b + added
    given = (a, b, added)
    for entry, of in ((tw.softmax(), softmax), (tw.row_max(), lambda x: x.max(1)), (tw.row_sum(), lambda x: x.sum(1))):
        spec = tw.MatmulSpec(8, 37, 5, epilogue=(tw.residual(), entry))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(tw.compile(spec)(*given), of(x), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(tw.reference(spec, *given), of(x), rtol=1e-5, atol=1e-7)


def test_softmax_of_large_numbers_does_not_overflow():
    spec = tw.MatmulSpec(4, 300, 3, epilogue=(tw.scale(1e4), tw.softmax()))
    check(spec)
    np.testing.assert_allclose(tw.compile(spec)(*operands(spec)).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("form", [each for each in FORMS if each not in ("glu: added to", "glu: integers")])
def test_c_is_written_once_and_never_read(form):
    """Of whole tiles each store stands for itself: together they store as many elements as C has."""
    spec = tw.MatmulSpec(48, 128, 64, **FORMS[form])
    parameters = {"mr": 6, "nr": 32, "mc": 24, "nc": 128}
    text = tw.compile(spec, "x86-64-v4", schedule="packed", parameters=parameters).asm["bufferized"]
    with ir.Context():
        module = ir.Module.parse(text)
        function = next(op for op in module.body if op.operation.name == "func.func")
        c = function.regions[0].blocks[0].arguments[len(spec.operands)]
        accesses = list(usedef.accesses(c))
        assert {(op.name, operand) for op, operand in accesses} in (
            {("vector.transfer_write", 1)},
            {("memref.store", 1)},
        )
        elements = [
            int(np.prod(ir.VectorType(op.operands[0].type).shape)) if "vector" in op.name else 1 for op, _ in accesses
        ]
        times = [np.prod([_trips(loop) for loop in usedef.upwards(op) if loop.name == "scf.for"]) for op, _ in accesses]
    assert np.dot(elements, times) == np.prod(spec.c_shape)


def _trips(loop: ir.Operation) -> int:
    start, end, step = (ir.IntegerAttr(each.owner.attributes["value"]).value for each in list(loop.operands)[:3])
    return -(-(end - start) // step)


@pytest.mark.parametrize("form", [each for each in FORMS if each.startswith(("prologue", "gather"))])
def test_what_a_prologue_makes_is_in_panels_only(form):
    """A call takes memory for packed panels, a block of each operand, and for nothing of the size of an operand beside."""
    spec = tw.MatmulSpec(96, 128, 640, **FORMS[form])
    kernel = tw.compile(spec, schedule="packed", parameters={"mr": 4, "mc": 8, "nr": 32, "nc": 32, "kc": 640})
    panels = (8 + 32) * 640 * panel_bytes(spec, resolve("host"))
    assert kernel.metadata.workspace_bytes < 1.2 * panels + 4096
    assert "linalg." not in kernel.asm["bufferized"]


def test_nothing_beyond_an_operand_is_touched():
    program = """
        import numpy as np
        from fusion_forms import GATHERS, GLUS, PROLOGUES, ROWS, assert_right, operands
        from guard_pages import PLACINGS, Guarded
        import tilewright as tw

        forms = (PROLOGUES["functions"], PROLOGUES["i8 weights"], GATHERS["f32"], GLUS["silu"], ROWS["softmax"], ROWS["row_sum"])
        for fields in forms:
            spec = tw.MatmulSpec(7, 19, 5, **fields)
            kernel, given = tw.compile(spec), operands(spec)
            for placing in PLACINGS:
                if placing.gap and spec.reduces_rows:
                    continue
                placed = [Guarded(each, placing) for each in given]
                out = Guarded(np.zeros(spec.c_shape, np.float32), placing)
                kernel(*(each.matrix for each in placed), out=out.matrix)
                assert_right(spec, given, out.matrix, None)
                assert not any(each.is_written_around() for each in (*placed, out))
        print("none")
    """
    assert in_new_process(program).strip() == "none"


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        (
            {"prologue_a": (tw.bias("n"),)},
            r"operand bias of bias\('n'\) has axes 'n' in prologue_a; expected one of 'mk'",
        ),
        ({"prologue_b": (tw.gather_rows(4),)}, "gather_rows.* in prologue_b; expected the first entry of prologue_a"),
        ({"prologue_a": (tw.relu(), tw.gather_rows(4))}, "gather_rows comes after another entry"),
        ({"prologue_a": (tw.gather_rows(4),), "layout": "tn"}, "gather_rows from a table that is stored transposed"),
        ({"prologue_a": (tw.gather_rows(4),), "batch": (2,)}, "gather_rows with a batch"),
        ({"prologue_a": (tw.glu(),)}, "in prologue_a; expected an entry of the epilogue"),
        ({"prologue_a": (tw.softmax(),)}, "in prologue_a; expected an entry of the epilogue"),
        ({"prologue_a": [tw.relu()]}, "prologue_a is .*; expected a tuple"),
        ({"prologue_a": (3,)}, "an entry of prologue_a is 3"),
        ({"a": "bf16", "prologue_a": (tw.relu(),)}, "A of f32, B of bf16 .* End a prologue with tw.cast"),
        ({"epilogue": (tw.row_sum(), tw.relu())}, r"relu\(\) comes after row_sum\(\)"),
        ({"epilogue": (tw.softmax(), tw.row_max())}, "an epilogue with softmax.* and row_max"),
        ({"epilogue": (tw.softmax(),), "beta": 1}, "beta 1 with softmax"),
        ({"epilogue": (tw.softmax(),), "n": tw.Dim()}, "softmax.* with a dynamic n"),
        ({"epilogue": (tw.glu(),), "b_packed": True}, "b_packed with glu"),
        ({"epilogue": (tw.glu(),), "prologue_b": (tw.relu(),)}, "a prologue of B with glu"),
        ({"prologue_b": (tw.scale_by("n"),), "b_packed": True}, "b_packed with a prologue of B with operands"),
    ],
)
def test_what_is_refused(fields, match):
    with pytest.raises(SpecError, match=match):
        tw.MatmulSpec(**{"m": 4, "n": 6, "k": 5, **fields})


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tw.gather_rows(0), "gather_rows from 0 rows"),
        (lambda: tw.gather_rows(4, "u8"), "gather_rows by 'u8'; expected one of i32, i64"),
        (lambda: tw.glu("gelu2"), "glu by 'gelu2'; expected one of 'silu', 'gelu'"),
        (lambda: tw.glu(lambda c, s: c * s), "expected a function of one element"),
    ],
)
def test_entries_are_checked(make, match):
    with pytest.raises(SpecError, match=match):
        make()


def test_rows_that_no_cache_holds_are_refused():
    spec = tw.MatmulSpec(8, 1 << 24, 4, epilogue=(tw.softmax(),))
    with pytest.raises(SpecError, match=r"more than L2 of host holds; expected rows of at most \d+ elements"):
        tw.compile(spec)


def test_only_packed_fuses_them():
    for form in ("prologue: f16 A", "gather: f32", "glu: silu", "rows: row_sum"):
        spec = tw.MatmulSpec(1, 64, 64, **FORMS[form])
        assert tw.compile(spec).metadata.schedule == "packed"
        with pytest.raises(
            ScheduleError, match=r"strategy unpacked does not fuse all .* expected strategy (streamed or )?packed"
        ):
            tw.compile(spec, schedule="unpacked")


def test_operands_come_in_order():
    spec = tw.MatmulSpec(
        4,
        6,
        5,
        prologue_a=(tw.gather_rows(9), lambda a, s: a * s),
        prologue_b=(tw.scale_by("k"),),
        epilogue=(tw.scale_by("m"),),
    )
    named = [(each.name, each.shape) for each in spec.operands]
    assert named == [("a", (9, 5)), ("b", (5, 6)), ("index", (4,)), ("s", (5,)), ("scale", (5,)), ("scale_2", (4,))]
    glu = replace(spec, prologue_b=(), epilogue=(tw.glu(),))
    assert [each.shape for each in glu.operands][-1] == (5, 6)
