# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scalable`: one kernel that is right and vectorized at every vector length, run in an emulator."""

import dataclasses
import os
import re
import shutil
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import products
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import stages
from tilewright.errors import ScheduleError, TargetError
from tilewright.payload.reference import within_bound
from tilewright.schedules import make, select

pytestmark = pytest.mark.skipif(
    os.uname().machine == "x86_64" and not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed"
)

LENGTHS = (128, 256, 512, 1024, 2048)
TYPES = ("f32", "f64", "f16,f16,f32", "bf16,bf16,f32", "i8", "u8", "u8,i8,i32", "i8,u8,i32")
# Blocks of which the last are short in every direction, and tiles that vectors of 1024 bits do not fill.
BLOCKS = {"mr": 6, "nr": 12, "mc": 18, "nc": 40, "kc": 32}
F64_BLOCKS = BLOCKS | {"nr": 6}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def emulated(name: str, length: int | None) -> tw.Target:
    return targets.get(name).emulated(vector_length=length)


def check(
    spec: tw.MatmulSpec, target: str, lengths: tuple[int, ...] = LENGTHS, sizes: Mapping[str, int] | None = None
) -> None:
    """Runs one kernel at several lengths, with operands between NaN."""
    operands = products.uniform(spec)
    for number, length in enumerate(lengths):
        kernel = tw.compile(spec, emulated(target, length), schedule="scalable", parameters=sizes or {})
        assert kernel.metadata.cached == (number > 0), "the same object at every length"
        products.check(kernel, operands)


@pytest.mark.parametrize("types", TYPES)
def test_numbers_at_every_length(types):
    check(tw.MatmulSpec.from_dtypes(13, 29, 11, types), "neoverse-v1")
    check(tw.MatmulSpec.from_dtypes(24, 48, 32, types, beta=1), "neoverse-v1")
    blocks = F64_BLOCKS if types == "f64" else BLOCKS
    check(tw.MatmulSpec.from_dtypes(33, 101, 67, types), "neoverse-v1", sizes=blocks)


@pytest.mark.parametrize("types", TYPES)
def test_one_element_along_k_and_one_of_c(types):
    check(tw.MatmulSpec.from_dtypes(7, 9, 1, types), "neoverse-v2", (128, 2048))
    check(tw.MatmulSpec.from_dtypes(1, 1, 3, types), "neoverse-v2", (128, 2048))


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_extents_of_none(shape):
    for beta in (0, 1):
        check(tw.MatmulSpec(*shape, beta=beta), "neoverse-v1", (256,))


@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32", "i8"])
def test_layouts(layout, types):
    check(tw.MatmulSpec.from_dtypes(33, 101, 67, types, layout=layout), "neoverse-v1", (128, 512), BLOCKS)


@pytest.mark.parametrize("types", ["f16,f16,f32", "bf16,bf16,f32", "i8", "u8"])
def test_types_without_instructions_of_their_own(types):
    # Armv9.0-A has no bf16 and no i8mm: those are widened as they are packed, and bytes go through dot products.
    check(tw.MatmulSpec.from_dtypes(13, 29, 11, types), "armv9-a", (128, 512))


@pytest.mark.parametrize("a_type", [np.int8, np.uint8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
def test_extremes_of_bytes_are_exact(a_type, b_type):
    a = np.full((9, 37), np.iinfo(a_type).min, a_type)
    b = np.full((37, 40), np.iinfo(b_type).max, b_type)
    a[::2], b[:, ::3] = np.iinfo(a_type).max, np.iinfo(b_type).min
    types = [{np.int8: "i8", np.uint8: "u8"}[each] for each in (a_type, b_type)]
    kernel = tw.compile(tw.MatmulSpec(9, 40, 37, a=types[0], b=types[1]), "neoverse-v1")
    assert kernel.metadata.schedule == "scalable"
    assert (kernel(a, b) == a.astype(np.int32) @ b.astype(np.int32)).all()


def run(spec: tw.MatmulSpec, target: str | tw.Target = "neoverse-v1", **options: object) -> None:
    """Runs a kernel with further operands, or of a batch."""
    random = np.random.default_rng(3)
    given = [random.uniform(-1, 1, each.shape).astype(np.float32) for each in spec.operands]
    kernel = tw.compile(spec, target, schedule="scalable", **options)  # type: ignore[arg-type]
    assert within_bound(kernel(*given), tw.reference(spec, *given), tw.error_bound(spec, *given)).all()


@pytest.mark.parametrize("length", [128, 1024])
def test_what_follows_the_product(length):
    for epilogue in ((tw.bias("n"), tw.relu()), (tw.bias("m"), tw.gelu())):
        run(
            tw.MatmulSpec(33, 37, 65, epilogue=epilogue),
            emulated("neoverse-v1", length),
            parameters={"mc": 18, "nc": 24},
        )


def test_rounded_results():
    for types in ("bf16,bf16,bf16", "f16,f16,f16"):
        check(tw.MatmulSpec.from_dtypes(33, 37, 65, types), "neoverse-v1", (256, 512), {"mc": 18, "nc": 24})


def test_batches():
    run(tw.MatmulSpec(13, 29, 11, batch=(3,)))
    run(tw.MatmulSpec(13, 29, 11, batch=(3,), b_batch=()))


def test_extents_that_a_call_tells():
    spec = tw.MatmulSpec(None, None, None)
    kernel = tw.compile(spec, emulated("neoverse-v1", 512), schedule="scalable")
    for m, n, k in ((13, 140, 70), (1, 1, 1), (0, 3, 4)):
        call = tw.MatmulSpec(m, n, k)
        operands = products.uniform(call)
        products.assert_right(call, operands, kernel(*operands[:2]))


@pytest.mark.parametrize("extents", [(189, tw.Dim(96, 384), None), (tw.Dim(1, 100), 96, None)])
@pytest.mark.parametrize(("name", "schedule"), [("neoverse-v1", "scalable"), ("armv9-a+sme", "outer_product")])
def test_sums_that_wait_have_a_block_of_memory_whatever_the_extents(extents, name, schedule):
    spec = tw.MatmulSpec(*extents, epilogue=(tw.relu(),))
    kernel = tw.compile(spec, emulated(name, 256), schedule=schedule, parameters={"kc": 64})
    call = tw.MatmulSpec(189 if extents[0] == 189 else 70, 96, 150, epilogue=(tw.relu(),))
    operands = products.uniform(call)
    products.assert_right(call, operands, kernel(*operands[:2]))


def test_sums_that_something_is_done_to_take_a_block_of_memory():
    spec, row = tw.MatmulSpec(2000, 2000, 2000, epilogue=(tw.relu(),)), targets.get("neoverse-v1")
    plan = make.make(spec, row, "scalable")
    mc, nc, kc = (plan.sizes[each] for each in ("mc", "nc", "kc"))
    longest = 2048 // 128 * plan.sizes["nr"]
    needed = 4 * (mc * nc + mc * kc + (nc + longest) * kc)
    assert needed <= stages.build(spec, row, plan, until="bufferized").workspace < 1.1 * needed


@pytest.mark.parametrize("beta", [0, 1])
def test_the_same_bits_as_other_strategies(beta):
    spec = tw.MatmulSpec(20, 50, 100, beta=beta)
    operands = products.uniform(spec)
    cases = (("packed", None, 32), ("scalable", 128, 32), ("scalable", 1024, 48), ("scalable", 256, 100))
    results = []
    for schedule, length, kc in cases:
        kernel = tw.compile(spec, emulated("neoverse-v1", length), schedule=schedule, parameters={"kc": kc})
        results.append(products.check(kernel, operands))
    assert all((each == results[0]).all() for each in results)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"epilogue": (tw.bias("n"), tw.gelu())},
        {"batch": (4,)},
        {"batch": (4,), "b_batch": (), "epilogue": (tw.relu(),)},
    ],
)
def test_nothing_goes_element_by_element(fields):
    spec, row = tw.MatmulSpec(300, 500, 2000, **fields), targets.get("neoverse-v1")
    text = stages.build(spec, row, make.make(spec, row, "scalable"), until="bufferized").texts["bufferized"]
    assert "memref.store" not in text
    assert "memref.copy" not in text


def test_longer_vectors_take_fewer_instructions():
    spec = tw.MatmulSpec(48, 384, 64)
    operands = products.uniform(spec)[:2]
    counts = []
    for length in LENGTHS:
        kernel = tw.compile(spec, emulated("neoverse-v1", length))
        try:
            counts.append(kernel.count_instructions(*operands))
        except TargetError as reason:
            pytest.skip(str(reason))
    assert all(longer < 0.6 * shorter for shorter, longer in pairwise(counts)), counts
    fixed = tw.compile(spec, dataclasses.replace(targets.get("neoverse-v1"), scalable_bits=0))
    assert counts[1] < 0.75 * fixed.count_instructions(*operands)


def test_threads_share_the_rows():
    spec, row = tw.MatmulSpec(1024, 1024, 1024), targets.get("neoverse-v1")
    plan = make.make(spec, row, threads=2)
    assert (plan.name, plan.threads) == ("scalable", 2)
    text = stages.build(spec, row, plan, until="bufferized").texts["bufferized"]
    assert text.count("omp.parallel") == 2, "panels of A, and tiles of C"


def test_when_it_is_chosen():
    def name(target: str, m: int, n: int, k: int, **fields: object) -> str:
        return select.choose(tw.MatmulSpec(m, n, k, **fields), targets.get(target)).strategy  # type: ignore[arg-type]

    assert name("neoverse-v1", 256, 256, 256) == "scalable"
    assert name("armv9-a", 96, 128, 64) == "scalable"
    assert name("neoverse-v2", 256, 256, 256) != "scalable", "its vectors are no longer than those of every core"
    assert name("neoverse-v1", 2, 256, 256) != "scalable", "packing B is not repaid"
    assert name("neoverse-v1", 256, 8, 256) != "scalable", "packing A is not repaid"
    assert name("neoverse-v1", 256, 256, 256, b_packed=True) == "packed"


def test_a_made_up_core_is_one_row():
    core = dataclasses.replace(
        targets.get("neoverse-v2"), name="made-up", scalable_bits=512, l2=targets.Cache(512 << 10, 8)
    )
    spec = tw.MatmulSpec(40, 70, 50)
    plan, other = (
        make.make(tw.MatmulSpec(1024, 1024, 1024), row, "scalable") for row in (core, targets.get("neoverse-v2"))
    )
    assert plan.sizes["kc"] < other.sizes["kc"]
    kernel = tw.compile(spec, core)
    assert kernel.metadata.schedule == "scalable"
    products.check(kernel, products.uniform(spec))


def test_few_rows_and_columns_are_a_small_tile():
    row = targets.get("neoverse-v1")
    sizes = make.make(tw.MatmulSpec(8, 40, 64), row, "scalable").sizes
    assert (sizes["mr"], sizes["nr"]) == (4, 12)
    sizes = make.make(tw.MatmulSpec(8, 32, 64), row, "scalable").sizes
    assert (sizes["mr"], sizes["nr"]) == (4, 8)


@pytest.mark.parametrize(
    ("target", "fields", "sizes", "message"),
    [
        ("neoverse-n1", {}, {}, "neoverse-n1 has no products of f32 and f32 on scalable vectors"),
        ("neoverse-v1", {"b_packed": True}, {}, "does not compute .*b_packed"),
        ("neoverse-v1", {}, {"nr": 6}, "a register tile of .* x 6; expected multiples of 1 rows and 4 columns"),
        ("neoverse-v1", {"a": "i8"}, {"mr": 3}, "a register tile of 3 x .*; expected multiples of 2 rows"),
    ],
)
def test_what_it_does_not_do(target, fields, sizes, message):
    spec, row = tw.MatmulSpec(40, 40, 40, **fields), targets.get(target)
    with pytest.raises(ScheduleError, match=message):
        stages.build(spec, row, make.make(spec, row, "scalable", sizes), until="schedule")


@pytest.mark.parametrize("length", [0, 100, 384, 4096, True])
def test_no_such_length(length):
    with pytest.raises(
        TargetError, match=re.escape(f"a vector length of {length!r}; expected a power of two from 128")
    ):
        emulated("neoverse-v1", length)
    if length:
        with pytest.raises(TargetError, match="a vector length of"):
            dataclasses.replace(targets.get("neoverse-v1"), scalable_bits=length)


def test_no_length_without_scalable_vectors_or_emulator():
    with pytest.raises(TargetError, match="neoverse-n1 has no scalable vectors"):
        emulated("neoverse-n1", 256)
    with pytest.raises(TargetError, match="this machine runs it by itself"):
        tw.compile(tw.MatmulSpec(4, 4, 4), targets.resolve("host").emulated())
