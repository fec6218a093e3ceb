# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules of attention: the payload's ops and the decision make the kernel, and what they do not fit is refused."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import attention_cases
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.build.usedef import named
from tilewright.codegen.attention import chain
from tilewright.emit import attention, operators
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, transform
from tilewright.mlir.dialects.transform import structured
from tilewright.payload import attention as payload
from tilewright.payload.reference import within_bound
from tilewright.schedules import steps
from tilewright.schedules.decisions import OnlineSoftmax

SPEC = tw.AttentionSpec(queries=20, keys=70, head=16, heads=4, kv_heads=2, causal="lower_right")
PAIRED = tw.AttentionSpec(queries=20, keys=70, head=16, heads=4, kv_heads=2, q="bf16", k="f8E4M3FN")


def assembly(spec: tw.AttentionSpec, schedule: Any = None, target: str = "znver4") -> str:
    """What is made of `spec` under a function, or under our schedule; in this process."""
    row = targets.get(target)
    _, plan = attention.planned(spec, row, {}, 1)
    plan = plan if schedule is None else replace(plan, strategy=schedule)
    return operators.compiled(spec, row, plan, until="asm").texts["asm"]


def decided(script: steps.Script, sizes: OnlineSoftmax) -> ir.Module:
    steps.decide(steps.match(script.functions, "linalg.softmax"), sizes)
    return script.module


def products(script: steps.Script) -> steps.Handle:
    """The ops of the payload that are no softmax and no fill."""
    return steps.match(script.functions, "linalg.generic")


def is_right(spec: tw.AttentionSpec, kernel: Any, seed: int = 0) -> bool:
    operands = attention_cases.operands(spec, seed)
    known, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    return bool(within_bound(kernel(*operands), known, bound).all())


def canonical(spec: Any, target: Any, sizes: Any) -> ir.Module:
    with steps.script() as script:
        steps.clean(script.functions)
        return decided(script, sizes)


@pytest.mark.parametrize("number", range(attention_cases.COUNT))
def test_the_problem_is_read_from_the_ops_in_whatever_form_they_are(number):
    """Masks, causal limits, scales, groups and types are in the IR alone, and constants are where canonicalization puts them."""
    _, spec = attention_cases.specs(number)
    assert assembly(spec, canonical) == assembly(spec)


def test_the_order_of_loops_in_the_payload_does_not_matter():
    def interchanged(spec: Any, target: Any, sizes: Any) -> ir.Module:
        with steps.script() as script:
            first, scores, last = steps.split(products(script), 3)
            for op, order in ((first, [3, 1, 0, 2]), (scores, [2, 0, 1]), (last, [2, 3, 1, 0])):
                structured.structured_interchange(transform.AnyOpType.get(), op, iterator_interchange=order)
            return decided(script, sizes)

    assert assembly(SPEC, interchanged) == assembly(SPEC)


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (SPEC, {"kc": 12, "mr": 6}),
        (SPEC, {"kc": 16, "mr": 8, "nr": 2, "columns": 3}),
        (SPEC, {"merged": False}),
        (SPEC, {"merged": True}),
        (SPEC, {"kc": 32, "mr": 1, "nr": 1, "columns": 1, "vectorize": "head", "merged": False}),
        (SPEC, {"kc": 48, "mr": 1, "nr": 1, "columns": 1, "vectorize": "head", "merged": True}),
        (PAIRED, {"multiplied": "f32", "instructions": "vectors", "mr": 6, "nr": 2, "kc": 72}),
        (
            tw.AttentionSpec(queries=3, keys=70, head=16, heads=4, kv_heads=2),
            {"kc": 12, "mr": 6, "vectorize": "queries"},
        ),
        (tw.AttentionSpec(queries=None, keys=None, head=16, heads=4, kv_heads=2, causal=True), {"merged": True}),
    ],
)
def test_a_user_decides_otherwise(spec, changes):
    def own(spec: Any, target: Any, sizes: Any) -> ir.Module:
        with steps.script() as script:
            return decided(script, replace(sizes, **changes))

    kernel = tw.compile(spec, schedule=own)
    said = kernel.metadata.parameters["products"][0]
    assert all(f"{name}={value}" in said for name, value in changes.items())
    called = spec if isinstance(spec.queries, int) else replace(spec, queries=37, keys=50)
    assert is_right(called, kernel)
    ours = tw.compile(spec)
    assert (kernel.asm["asm"] == ours.asm["asm"]) == (said == ours.metadata.parameters["products"][0])


def test_a_printed_schedule_is_a_file_that_may_be_edited(tmp_path):
    own = tw.compile(SPEC, threads=2)
    file = tmp_path / "schedule.mlir"
    file.write_text(own.asm["schedule"])
    given = tw.compile(SPEC, threads=2, schedule=file)
    assert given.asm["asm"] == own.asm["asm"]
    assert given.metadata.schedule == str(file)
    file.write_text(own.asm["schedule"].replace("merged = true", "merged = false"))
    other = tw.compile(SPEC, threads=2, schedule=file)
    assert other.asm["asm"] != own.asm["asm"]
    assert is_right(SPEC, other)
    with pytest.raises(tw.ScheduleError, match="the schedule is for 2 threads"):
        tw.compile(SPEC, schedule=file)


MASKED = tw.AttentionSpec(
    queries=8, keys=8, head=8, heads=4, kv_heads=2, causal=True, mask="u8", mask_axes="hmn", q="bf16"
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dimension(2)", "dimension(1)", "not along the last dimension"),
        ("arith.constant 0.0 : f32", "arith.constant 1.0 : f32", "do not start from a linalg.fill of zero"),
        ("arith.mulf %x_wide", "arith.addf %x_wide", "expected a sum of products"),
        ("arith.mulf %x,", "arith.divf %x,", "expected a sum of products"),
        ("arith.addf %sum", "arith.subf %sum", "expected a sum of products"),
        ("h floordiv 2, n, k", "h floordiv 4, n, k", "heads share keys by 4, and not values"),
        ("(h floordiv 2, k, n)", "(h floordiv 2, n, k)", "axes batch, head, row and column, in this order"),
        (
            "(h, m, k)>, affine_map<(h, m, n, k) -> (h floordiv 2, n",
            "(h, k, m)>, affine_map<(h, m, n, k) -> (h floordiv 2, n",
            "axes",
        ),
        ("arith.mulf %score", "arith.addf %score", "changed by more than a scale"),
        ("cmpi sle", "cmpi slt", "changed by more than a scale"),
        ("cmpi sle, %key, %query", "cmpi sle, %query, %key", "hidden by something else than their number"),
        ("%hidden = arith.constant 0xFF800000", "%hidden = arith.constant 0x7F800000", "changed by more than a scale"),
        ("%no = arith.constant 0 : i8", "%no = arith.constant 1 : i8", "is no mask"),
        ("(h, m, n) -> (h, m, n)>, affine", "(h, m, n) -> (h, n, m)>, affine", "not that of the keys"),
        ("ins(%weights, %v", "ins(%q32, %v", "its result is used by nothing"),
        ("(d0, d1, d2) -> (d0, d1, d2)>, affine", "(d0, d1, d2) -> (d0, d2, d1)>, affine", "the result is transposed"),
    ],
)
def test_ops_that_are_no_attention_are_refused(old, new, message):
    """Never a kernel of something else: what the ops say is checked, and not taken for what attention's payload usually says."""
    text = payload.text(MASKED)
    assert old in text
    changed = text.replace(old, new).replace(
        "%mask: ", "%q32: tensor<4x8x8xf32>, %mask: " if "q32" in new else "%mask: "
    )
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(changed)
        (function,) = module.body.operations
        assert isinstance(function, func.FuncOp)
        (softmax,) = named(function.operation, "linalg.softmax")
        with pytest.raises(tw.ScheduleError, match=message):
            chain.read(function, softmax)


def undecided(script: steps.Script, sizes: OnlineSoftmax) -> None:
    steps.clean(script.functions)


def tiled(script: steps.Script, sizes: OnlineSoftmax) -> None:
    steps.tile(steps.match(script.functions, "linalg.softmax"), [1, 0, 0])
    decided(script, sizes)


def decomposed(script: steps.Script, sizes: OnlineSoftmax) -> None:
    softmax = steps.match(script.functions, "linalg.softmax")
    structured.DecomposeInterfaceOp(transform.AnyOpType.get(), softmax)
    decided(script, sizes)


def bufferized_scores(script: steps.Script, sizes: OnlineSoftmax) -> None:
    steps.tile(steps.split(products(script), 3)[1], [1, 0, 0])
    decided(script, sizes)


def otherwise(**changes: Any) -> Any:
    def decide(script: steps.Script, sizes: OnlineSoftmax) -> None:
        decided(script, replace(sizes, **changes))

    return decide


ALONG_HEAD = {"mr": 1, "nr": 1, "columns": 1, "vectorize": "head"}


@pytest.mark.parametrize(
    ("fields", "schedule", "message"),
    [
        ({}, undecided, "0 ops carry a decision about a softmax"),
        ({}, decomposed, "0 ops carry a decision about a softmax"),
        ({}, tiled, "the softmax is inside scf.for"),
        ({}, bufferized_scores, r"made by scf\.for"),
        ({}, otherwise(kc=25), r"kc is 25.*; expected a multiple of \d+"),
        ({}, otherwise(mr=8, nr=16, kc=16), r"mr, nr is 8, 16.*; expected at most the 32 sums"),
        ({}, otherwise(kc=6 << 28), "less than 1073741824 bytes of scratch memory"),
        ({}, otherwise(multiplied="bf16"), r"multiplied is bf16 for f32, f32, f32 on znver4.*; expected f32"),
        ({}, otherwise(vectorize="keys"), "vectorize: expected"),
        ({}, otherwise(instructions="registers"), 'instructions: expected "vectors" or "tiles"'),
        ({}, otherwise(instructions="tiles"), "tiles multiply bf16, with queries in the lanes of vectors"),
        ({"q": "bf16"}, otherwise(instructions="tiles"), "instructions is tiles on znver4.*; expected vectors"),
        ({"queries": None}, otherwise(kc=16, **ALONG_HEAD), "head for a dynamic number of queries"),
        ({"queries": 65}, otherwise(kc=16, **ALONG_HEAD), "head for 65 queries.*; expected queries"),
        ({}, otherwise(kc=512, **ALONG_HEAD), "kc is 512.*; expected at most 256 keys"),
        ({}, otherwise(kc=24, **ALONG_HEAD), "kc is 24.*; expected a multiple of 16"),
    ],
)
def test_what_does_not_fit_is_refused(fields, schedule, message):
    spec = tw.AttentionSpec(**{"queries": 40, "keys": 70, "head": 16, **fields})

    def own(spec: Any, target: Any, sizes: Any) -> ir.Module:
        with steps.script() as script:
            schedule(script, sizes)
        return script.module

    with pytest.raises((tw.ScheduleError, ir.MLIRError), match=message):
        assembly(spec, own)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mr": 16}, "mr, nr is 16, 2.*; expected 32 and at most 2 with tiles"),
        ({"nr": 3}, "mr, nr is 32, 3.*; expected 32 and at most 2 with tiles"),
        ({"kc": 48}, "kc is 48.*; expected a multiple of 32"),
    ],
)
def test_tiles_are_two_by_two(changes, message):
    spec = tw.AttentionSpec(queries=40, keys=70, head=16, q="bf16")

    def own(spec: Any, target: Any, sizes: Any) -> ir.Module:
        with steps.script() as script:
            decided(script, replace(sizes, **changes))
        return script.module

    with pytest.raises(tw.ScheduleError, match=message):
        assembly(spec, own, "sapphirerapids")


def test_an_error_names_the_line_that_decided(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(
        """
from dataclasses import replace
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        softmax = steps.match(script.functions, "linalg.softmax")
        steps.decide(softmax, replace(sizes, kc=7))
    return script.module
"""
    )
    with pytest.raises(tw.ScheduleError, match=r"wrong\.py:9.*kc is 7.*; expected a multiple of"):
        tw.compile(SPEC, "x86-64-v3", schedule=file)


def test_a_schedule_that_crashes_ends_its_own_process_only():
    def crash(spec: Any, target: Any, sizes: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(tw.ScheduleError, match="SIGSEGV"):
        tw.compile(SPEC, schedule=crash)


def test_a_schedule_of_a_product_is_refused(tmp_path):
    file = tmp_path / "product.mlir"
    file.write_text(tw.compile(tw.MatmulSpec(m=40, n=40, k=40)).asm["schedule"])
    with pytest.raises(tw.ScheduleError):
        tw.compile(SPEC, schedule=file)
    file.write_text(tw.compile(tw.MatmulSpec(m=None, n=40, k=40)).asm["schedule"])
    with pytest.raises(tw.ScheduleError, match="one of a dynamic product"):
        tw.compile(SPEC, schedule=file)
