# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A schedule's text alone determines the kernel: what is printed makes the same object again, byte for byte, in a new process."""

import base64
import hashlib
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attention_cases
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.cli import main
from tilewright.dtypes import COMBINATIONS
from tilewright.emit import gpu, operators, stages
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import make, select
from tilewright.schedules.gpu_strategies import ATTENTION_STRATEGIES, GPU_STRATEGIES
from tilewright.schedules.plan import Plan
from tilewright.targets.registry import GPUS

REPLAY = Path(__file__).parents[1] / "Inputs" / "replay.py"
THREADED = ("x86-64-v4", "neoverse-n1", "neoverse-v1")


def cells(every):
    """Specs, and how to compile them: each target's choice for each type, a fourth of them or `every` one; each strategy; and others."""
    for number, target in enumerate(targets.all()):
        for each in COMBINATIONS if every else COMBINATIONS[number % 4 :: 4]:
            yield tw.MatmulSpec(m=13, n=37, k=24, a=each.a, b=each.b, c=each.c), target.name, None, 1
    for name in ("x86-64-v4", "sapphirerapids", "neoverse-v2", "armv9-a+sme"):
        for strategy in select.available(targets.get(name)):
            if strategy != "scaled_sums":
                layout = "nt" if strategy == "inner_product" else "nn"
                yield tw.MatmulSpec(m=9, n=40, k=70, layout=layout), name, strategy, 1
        yield (
            tw.MatmulSpec(m=14, n=22, k=40, layout="tt", batch=(3,), epilogue=(tw.bias("n"), tw.relu())),
            name,
            None,
            1,
        )
    codes = {"prologue_b": (tw.dequantize("gn", 0, 32),), "b": "i4", "a": "bf16", "c": "f32"}
    yield tw.MatmulSpec(m=1, n=512, k=256, **codes), "x86-64-v4", "scaled_sums", 1
    for name in THREADED:
        yield tw.MatmulSpec(m=300, n=300, k=300), name, None, 2
        yield tw.MatmulSpec(m=70, n=64, k=80, b_packed=True), name, None, 1
        yield tw.MatmulSpec(m=None, n=64, k=80), name, None, 1
    yield tw.MatmulSpec(m=None, n=33, k=tw.Dim(max=500), layout="nt", epilogue=(tw.silu(),)), "x86-64-v4", None, 2


def gpu_cells(every):
    """The same for GPUs, with sizes and how rows are aligned: each strategy of each target, for one type or `every` one."""
    for target in GPUS:
        done = {}
        for each in COMBINATIONS:
            spec = tw.MatmulSpec(m=70, n=80, k=96, a=each.a, b=each.b, c=each.c)
            for strategy in gpu.able(spec, target):
                done.setdefault(strategy, []).append(spec)
        for number, (strategy, specs) in enumerate(done.items()):
            for spec in specs if every else [specs[number % len(specs)]]:
                yield spec, target, strategy, {}, True, True
    sm_80, hopper, blackwell = (targets.gpu(name) for name in ("sm_80", "sm_90a", "sm_100a"))
    batch = tw.MatmulSpec(m=14, n=24, k=40, a="bf16", layout="tt", batch=(3,), epilogue=(tw.bias("n"), tw.relu()))
    yield batch, sm_80, "mma_sync", {"wm": 64, "wn": 64, "stages": 4}, False, True
    yield batch, blackwell, "tensor_memory", {}, True, False
    yield tw.MatmulSpec(m=None, n=64, k=None, a="f16"), hopper, "warpgroup", {"cluster": 2, "stages": 3}, True, True
    yield tw.MatmulSpec(m=40, n=16, k=16, prologue_a=(tw.gather_rows(9),)), sm_80, "simt", {}, False, True
    yield tw.MatmulSpec(m=3, n=64, k=16, epilogue=(tw.softmax(),)), sm_80, "simt", {}, True, True
    yield tw.Conv2dSpec(2, 9, 11, 16, 24, 3, 3, a="bf16", padding=1), sm_80, "mma_sync", {}, True, True
    yield tw.AttentionSpec(40, 40, 16, q="bf16", causal=True), sm_80, "shared_softmax", {"kc": 16}, True, True
    yield tw.AttentionSpec(40, 40, 16, q="bf16", causal=True), hopper, "warp_group_softmax", {"kc": 16}, True, True
    codes = {"prologue_b": (tw.dequantize("gn", 0, 32),), "b": "i4", "a": "bf16", "c": "f32"}
    yield tw.MatmulSpec(m=16, n=64, k=64, **codes), hopper, "mma_sync", {}, True, True


def operator_cells(every):
    """The same for operators, with target and threads: forms of each on some targets, and on `every` one."""
    image: dict[str, Any] = {"n": 2, "h": 9, "w": 11, "ic": 16, "oc": 24, "kh": 3, "kw": 3, "padding": 1}
    yield tw.Conv2dSpec(**image, epilogue=(tw.bias("n"), tw.relu())), "x86-64-v4", 1
    yield tw.Conv2dSpec(**image, a="bf16", stride=2, dilation=2), "sapphirerapids", 1
    yield tw.Conv2dSpec(**image, a="u8", b="i8", groups=2), "neoverse-n1", 1
    yield tw.Conv2dSpec(**image, layout="nchw", filter="oihw"), "x86-64-v3", 1
    yield tw.Conv2dSpec(**image, w_packed=True), "x86-64-v4", 1
    yield tw.Conv2dSpec(1, 14, 14, 48, 96, 1, 1), "x86-64-v4", 1
    yield tw.Conv2dSpec(4, 28, 28, 64, 64, 3, 3, padding=1), "x86-64-v4", 2
    for number, target in enumerate(("x86-64", "x86-64-v3", "znver4", "neoverse-n2") * 3):
        yield attention_cases.specs(number)[1], target, 1 + number % 2
    depthwise: dict[str, Any] = {**image, "oc": 16, "groups": 16}
    yield tw.Conv2dSpec(**depthwise, epilogue=(tw.bias("n"), tw.relu())), "x86-64-v4", 1
    yield tw.Conv2dSpec(**depthwise, a="u8", b="i8", stride=2), "neoverse-n1", 1
    for number, target in enumerate(targets.all() if every else ()):
        for each in COMBINATIONS:
            types: dict[str, Any] = {"a": each.a, "b": each.b, "c": each.c}
            yield tw.Conv2dSpec(**image, **types, groups=2), target.name, 1
            yield tw.Conv2dSpec(**image, **types, layout="nchw", filter="oihw"), target.name, 1
            yield tw.Conv2dSpec(**depthwise, **types), target.name, 1
        yield attention_cases.specs(number % attention_cases.COUNT)[1], target.name, 1


@pytest.fixture(scope="module")
def replayed():
    """What a new process makes of a schedule's text: the digest of the object, or its error."""
    with subprocess.Popen(
        [sys.executable, str(REPLAY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        to, answers = process.stdin, process.stdout
        assert to is not None
        assert answers is not None

        def ask(spec, schedule, target, threads=1, **form):
            request = {"schedule": schedule, "target": target, "threads": threads, **form}
            to.write(json.dumps({**request, "spec": base64.b64encode(pickle.dumps(spec)).decode()}) + "\n")
            return json.loads(answers.readline())

        yield ask
        to.close()


def test_every_printed_schedule_makes_the_same_object_again(replayed, request):
    wrong, count = [], 0
    for spec, name, strategy, threads in cells(request.config.getoption("--length") == "long"):
        plan = make.make(spec, targets.get(name), strategy, threads=threads)
        built = stages.build(spec, targets.get(name), plan)
        found = replayed(spec, built.texts["schedule"], name, threads)
        count += 1
        if found != hashlib.sha256(built.object).hexdigest():
            wrong.append(f"{spec} on {name} by {strategy}, {threads} threads: {found}")
    assert not wrong
    assert count > 70


def test_every_printed_schedule_for_a_gpu_makes_the_same_code_again(replayed, request):
    wrong, done = [], set()
    for spec, target, strategy, sizes, aligned, boxed in gpu_cells(request.config.getoption("--length") == "long"):
        form = {"aligned": aligned, "boxed": boxed}
        built = gpu.build(spec, target, strategy, sizes, **form)
        found = replayed(spec, built.texts["schedule"], target.name, **form)
        done.add((target.name, strategy))
        if found != hashlib.sha256(b"".join(each.object for each in built.passes)).hexdigest():
            wrong.append(f"{spec} on {target.name} by {strategy}: {found}")
    assert not wrong
    assert {strategy for _, strategy in done} == {*GPU_STRATEGIES, *ATTENTION_STRATEGIES}
    assert {name for name, _ in done} == {each.name for each in GPUS}


def test_the_command_line_replays_a_schedule_for_a_gpu(tmp_path):
    def compiled(*options):
        command = ["compile", "--shape", "70x80x96", "--dtype", "bf16", "--target", "sm_90a", *options]
        assert main(command) == 0

    text, given, again, edited = (tmp_path / name for name in ("s.mlir", "given.ptx", "again.ptx", "edited.ptx"))
    compiled("--emit", "schedule", "-o", str(text))
    compiled("-o", str(given))
    compiled("--schedule", str(text), "-o", str(again))
    assert again.read_bytes() == given.read_bytes()
    text.write_text(re.sub(r'(knob<"stages"> =) \d+', r"\1 2", text.read_text()))
    compiled("--schedule", str(text), "-o", str(edited))
    assert edited.read_bytes() != given.read_bytes()


def test_every_printed_schedule_of_an_operator_makes_the_same_object_again(replayed, request):
    wrong = []
    for spec, name, threads in operator_cells(request.config.getoption("--length") == "long"):
        built = operators.build(spec, targets.get(name), threads=threads)
        found = replayed(spec, built.texts["schedule"], name, threads)
        if found != hashlib.sha256(built.object).hexdigest():
            wrong.append(f"{spec} on {name}, {threads} threads: {found}")
    assert not wrong


@pytest.mark.parametrize("name", ["x86-64-v4", "sm_80"])
def test_a_schedule_from_a_file_promises_no_order_of_summation(name, tmp_path):
    spec = tw.MatmulSpec(m=70, n=80, k=96, deterministic=True)
    file = tmp_path / "schedule.mlir"
    file.write_text(tw.compile(spec, name).asm["schedule"])
    with pytest.raises(ScheduleError, match="the summation order of a user's schedule is unspecified"):
        tw.compile(spec, name, schedule=file)


def schedule_of(spec, target, threads=1):
    """The printed schedule of a spec, and its plan again from that text."""
    text = stages.build(spec, target, make.make(spec, target, threads=threads), until="schedule").texts["schedule"]
    return text, Plan("printed.mlir", None, text=text, trusted=False, threads=threads)


def test_a_schedule_for_two_threads_is_refused_where_one_is_asked_for():
    spec, target = tw.MatmulSpec(m=300, n=300, k=300), targets.get("x86-64-v4")
    text, _ = schedule_of(spec, target, threads=2)
    assert "#tilewright.kernel<threads = 2>" in text
    with pytest.raises(ScheduleError, match=r"the schedule is for 2 threads.*Ask for threads=2"):
        Plan("printed.mlir", None, text=text, trusted=False).read(spec, ir.Context())


def test_a_dynamic_schedule_without_one_of_its_cases_is_refused():
    spec, target = tw.MatmulSpec(m=None, n=64, k=80), targets.get("x86-64-v4")
    text, plan = schedule_of(spec, target)
    assert len(plan.read(spec, ir.Context()).cases) > 1
    _, *others = text.split("// -----\n")
    assert others
    with pytest.raises(ScheduleError, match="each case of a dynamic kernel once"):
        Plan("printed.mlir", None, text="// -----\n".join(others), trusted=False).read(spec, ir.Context())


@pytest.mark.parametrize(
    ("target", "old", "new", "message"),
    [
        ("neoverse-v1", "mc = 24", "mc = 6", "a block has up to 24 along m.*at most the 6 that are decided"),
        ("neoverse-v1", "kc = 40", "kc = 39", "a block has up to 40 along k"),
        ("neoverse-v1", "nr = 12", "nr = 13", "a register tile of 6 x 13"),
        ("armv9-a+sme", "nc = 44", "nc = 4", "a block has up to 44 along n"),
        ("x86-64-v4", "", "", "no products of f32 and f32 on scalable vectors"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(target, old, new, message):
    spec = tw.MatmulSpec(m=24, n=44, k=40)
    source = targets.get(target if old else "neoverse-v1")
    strategy = "outer_product" if "sme" in target else "scalable"
    sizes = {"mc": 24, "nc": 44, "kc": 40}
    made = stages.build(spec, source, make.make(spec, source, strategy, sizes), until="schedule").texts["schedule"]
    decided = next(line for line in made.splitlines() if "scalable_tiles" in line or "outer_products" in line)
    assert old in decided
    plan = Plan("edited.mlir", None, text=made.replace(decided, decided.replace(old, new)), trusted=False)
    with pytest.raises(ScheduleError, match=message):
        stages.build(spec, targets.get(target), plan)
