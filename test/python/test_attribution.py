# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Line tables: each instruction of a hot loop knows the line of the schedule that made it and the loops around it, at no cost."""

import re
import shutil
import subprocess

import pytest
import tilewright as tw
from own_schedules import MATCH, written
from test_quantized import dequantizing
from tilewright import knobs, targets
from tilewright.cli import main
from tilewright.emit import attribution, hotloop

LEAST = 0.95
"""Of the instructions of a hot loop."""
CASES = {
    "packed": (tw.MatmulSpec(512, 2048, 2048), "x86-64-v4", "cpu/packed.py", "jc, pc, ic, jr, ir, loop"),
    "tiles": (tw.MatmulSpec(64, 64, 128, a="bf16"), "sapphirerapids", "cpu/packed.py", "loop, loop, loop"),
    "unpacked": (
        tw.MatmulSpec(64, 64, 64, epilogue=(tw.bias("n"), tw.relu())),
        "x86-64-v4",
        "cpu/unpacked.py",
        "ir, loop",
    ),
    "streamed": (tw.MatmulSpec(8, 4096, 4096), "x86-64-v4", "cpu/unpacked.py", "loop, jr, loop"),
    "inner_product": (tw.MatmulSpec(1, 64, 512, layout="nt"), "x86-64-v4", "cpu/inner_product.py", "jr, loop"),
    "scalable": (tw.MatmulSpec(64, 64, 64), "armv9-a", "cpu/scalable.py", "ir, loop"),
    "outer_product": (tw.MatmulSpec(64, 64, 64), "armv9-a+sme", "cpu/outer_product.py", "loop, loop, loop"),
    "no SVE": (tw.MatmulSpec(64, 64, 64), "apple-m4", "cpu/outer_product.py", "loop, loop, loop"),
    "scaled_sums": (
        dequantizing("bf16", "u4", "nn", 64, "u8", 1, 256, 256),
        "x86-64-v4",
        "cpu/scaled_sums.py",
        "pc, jr",
    ),
    "attention": (tw.AttentionSpec(32, 32, 16), "x86-64-v4", "operators/attention.py", "loop"),
    "depthwise": (
        tw.Conv2dSpec(1, 9, 9, 32, 32, 3, 3, padding=1, groups=32),
        "x86-64-v4",
        "operators/depthwise.py",
        "loop",
    ),
}
"""By strategy or operator: a problem, a target, the schedule's file, and the last ones of the loops around the hot loop's body.

`streamed` shares the register tile of `unpacked`.
"""


def assembly(spec, target="x86-64-v4", *, tables=True, schedule=None):
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="1" if tables else "0"):
        return tw.compile(spec, target, schedule=schedule, cache=False).asm["asm"]


@pytest.mark.parametrize("case", CASES)
def test_instructions_of_hot_loops_know_their_line(case):
    spec, target, file, loops = CASES[case]
    loop = hotloop.hottest(assembly(spec, target), targets.resolve(target).architecture)
    assert loop is not None
    assert sum(loop.origins.values()) >= LEAST * len(loop.instructions)
    assert all(re.match(rf"{file}:\d+ in ", origin) for origin in loop.origins)
    assert next(iter(loop.origins)).endswith(loops)


@pytest.mark.parametrize("case", ["unpacked", "attention"])
def test_line_tables_change_no_instruction(case):
    spec, target, *_ = CASES[case]

    def instructions(text):
        return [line.split("#")[0].strip() for line in text.splitlines() if re.match(r"\t[a-z]", line)]

    assert instructions(assembly(spec, target)) == instructions(assembly(spec, target, tables=False))


HALF = tw.MatmulSpec(256, 256, 256, a="bf16")
GPUS = {
    "simt": (tw.MatmulSpec(64, 64, 64), "sm_80", "ptx", attribution.NVIDIA),
    "mma_sync": (HALF, "sm_80", "ptx", attribution.NVIDIA),
    "warpgroup": (HALF, "sm_90a", "ptx", attribution.NVIDIA),
    "tensor_memory": (HALF, "sm_100a", "ptx", attribution.NVIDIA),
    "matrix_cores": (HALF, "gfx942", "asm", attribution.AMD),
}
"""By strategy: a product, a target, the stage of its code, and what starts a comment there."""


@pytest.mark.parametrize("strategy", GPUS)
def test_instructions_of_kernels_for_gpus_know_their_line(strategy):
    spec, target, stage, comment = GPUS[strategy]
    texts = {}
    for tables in ("0", "1"):
        with knobs.overridden(TILEWRIGHT_DEBUG_INFO=tables):
            kernel = tw.compile(spec, target, schedule=strategy, cache=False)
            texts[tables] = kernel.asm[stage]
    text = texts["1"] if stage == "asm" else attribution.annotated(texts["1"], kernel.asm["llvmir"], comment)
    lines = [line for line in text.splitlines() if re.match(r"\t[@a-z]", line)]
    known = [line for line in lines if re.search(rf"{comment} from gpu/{strategy}\.py:\d+", line)]
    assert len(known) >= LEAST * len(lines)
    assert any(line.endswith("in loop") for line in known)
    assert [line.split(f" {comment} from")[0] for line in lines] == [
        line for line in texts["0"].splitlines() if re.match(r"\t[@a-z]", line)
    ]
    assert stage == "asm" or not re.search(r"\.target.*debug", texts["1"])


def test_machine_code_of_nvidia_is_read_with_its_lines():
    said = """matmul:
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;
\t//## File "/somewhere/own.py", line 59
        /*0010*/                   S2R R144, SR_CTAID.Y ;
\t//## File "tilewright", line 0
        /*0020*/                   EXIT ;
"""
    lines = attribution.annotated_sass(said).splitlines()
    assert [line.rpartition(";")[2] for line in lines[1:]] == ["", " // from /somewhere/own.py:59", ""]


def test_a_schedule_of_ones_own_is_named_by_its_file(tmp_path):
    file = written(
        tmp_path / "own.mlir",
        MATCH,
        "%tiled, %loops:2 = transform.structured.tile_using_for %m tile_sizes [1, 16]"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)",
    )
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "tile_using_for" in text)
    loop = hotloop.hottest(assembly(tw.MatmulSpec(16, 16, 16), schedule=str(file)))
    assert loop is not None
    assert any(origin.startswith(f"{file}:{line} in loop") for origin in loop.origins)


def test_an_object_has_the_line_tables(tmp_path):
    for name, options in (("with", ["--debug-info"]), ("without", [])):
        path = tmp_path / f"{name}.o"
        assert main(["compile", "--shape", "64x64x64", *options, "-o", str(path)]) == 0
        assert (b".debug_line" in path.read_bytes()) == bool(options)


CC = shutil.which("cc") or shutil.which("clang-22")
CALLER = """
#include <stdint.h>
int32_t matmul(int64_t, int64_t, int64_t, const void *, int64_t, const void *, int64_t, void *, int64_t);
static float a[256], b[256], c[256];
int main(void) {
  for (int i = 0; i < CALLS; ++i)
    if (matmul(16, 16, 16, a, 16, b, 16, c, 16))
      return 1;
  return 0;
}
"""


@pytest.fixture
def traced(tmp_path):
    """A schedule's file, the number and text of its line that tiles, and an object that was compiled under it."""
    file = written(
        tmp_path / "own.mlir",
        MATCH,
        "%tiled, %loops:2 = transform.structured.tile_using_for %m tile_sizes [1, 16]"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)",
    )
    number, text = next(each for each in enumerate(file.read_text().splitlines(), 1) if "tile_using_for" in each[1])
    options = ["--shape", "16x16x16", "--schedule", str(file), "--debug-info"]
    assert main(["compile", *options, "-o", str(tmp_path / "own.o")]) == 0
    return file, number, text.strip(), tmp_path / "own.o"


def said(*command) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_objdump_shows_the_schedule_between_instructions(traced):
    _, _, text, built = traced
    assert text in said("objdump", "-d", "-S", built)


def program_of(built, calls: int):
    """A program that calls the object's kernel so often."""
    program = built.with_suffix("")
    built.with_suffix(".c").write_text(CALLER)
    said(CC, f"-DCALLS={calls}", built.with_suffix(".c"), built, "-o", program)
    return program


@pytest.mark.skipif(not (shutil.which("perf") and CC), reason="perf or a C compiler is not installed")
def test_perf_tells_which_line_of_the_schedule_takes_the_time(traced):
    _, _, text, built = traced
    data, program = built.with_suffix(".data"), program_of(built, 200_000)
    said(program)
    command = ["perf", "record", "-q", "-e", "cpu-clock:u", "-o", data, program]
    recorded = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60)
    if recorded.returncode:
        pytest.skip(f"this machine lets nobody sample programs: {recorded.stderr.strip()[:200]}")
    assert text in said("perf", "annotate", "-i", data, "--stdio", "-s", "matmul")


@pytest.mark.skipif(not (shutil.which("gdb") and CC), reason="gdb or a C compiler is not installed")
def test_gdb_stops_at_a_line_of_the_schedule(traced):
    file, number, text, built = traced
    program = program_of(built, 1)
    told = said("gdb", "-batch", "-nx", "-ex", f"break {file.name}:{number}", "-ex", "run", "-ex", "bt", program)
    if "ptrace" in told or "not permitted" in told:
        pytest.skip("this machine lets nobody trace programs")
    assert text in told
    assert re.search(rf"#0 +loop \(\) at .*{file.name}:{number}\n#1 +loop \(\)", told)


def test_llvm_ir_for_people_has_no_tables():
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="1"):
        text = tw.compile(tw.MatmulSpec(8, 16, 8), "x86-64-v4", cache=False).asm["llvmir"]
    assert "!dbg" in text
    plain = attribution.without_tables(text)
    assert "dbg" not in plain
    assert "DILocation" not in plain
    assert plain.count("call") == text.count("call")
