# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line as a process: pipes, closed outputs, signals, and the whole pipe from a shape to numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-I", "-m", "tilewright"]
OPT = Path(sys.executable).with_name("tilewright-opt")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def tilewright(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=300, **options)


def shell(command):
    """Runs a line of shell in which $tilewright is the command."""
    environment = {**os.environ, "tilewright": " ".join(COMMAND)}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)


def test_the_installed_script_is_the_same_command():
    script = Path(sys.executable).with_name("tilewright")
    if not script.exists():
        pytest.skip("not installed")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == tilewright("--version").stdout


def test_help_and_errors_load_neither_numpy_nor_mlir():
    code = (
        "import sys; from tilewright.cli import main; main(['--help']); main(['run']);"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'tilewright.mlir', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False).returncode == 0


def test_run_from_cold_and_from_the_cache():
    for how in ("compiled", "from the cache"):
        done = tilewright("run", "--shape", "33x44x55", "--dtype", "f64")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"({how})" in done.stdout
        assert done.stdout.rstrip().endswith(": ok")


def test_a_reader_that_leaves_early_is_no_failure():
    reader, writer = os.pipe()
    os.close(reader)  # gone before the command starts, so that its first write must fail
    try:
        done = subprocess.run([*COMMAND, "targets"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (141, -signal.SIGPIPE)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["targets", "run --shape 4x4x4", "compile --shape 4x4x4 --emit asm", "--help"])
def test_a_full_disk_is_one_line(arguments):
    done = shell(f"$tilewright {arguments} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "tilewright: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_no_failure(closed):
    assert shell(f"$tilewright run --shape 4x4x4 {closed}").returncode == 0
    assert shell(f"$tilewright run --shape 4x4 {closed}").returncode == 2


def _attend_to_ctrl_c() -> None:
    """Where a shell runs the tests in the background, they ignore Ctrl-C, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupting_is_one_line_and_leaves_nothing(place):
    process = subprocess.Popen(
        [*COMMAND, "run", *["--shape", "512x512x512"] * 1000],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_attend_to_ctrl_c,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "tilewright: interrupted\n")
    assert [path.name for path in place.iterdir()] == ["cache"]


@pytest.mark.skipif(not OPT.exists(), reason="tilewright-opt is not installed")
@pytest.mark.parametrize("shape", ["200x300x100", "31x17x63"])
def test_the_schedule_is_a_transform_module_that_opt_runs(place, shape):
    for stage in ("payload", "schedule", "scheduled"):
        done = tilewright("compile", "--shape", shape, "--schedule", "packed", "--emit", stage, "-o", f"{stage}.mlir")
        assert (done.returncode, done.stderr) == (0, "")
    options = ["--transform-preload-library=transform-library-paths=schedule.mlir", "--transform-interpreter"]
    applied = subprocess.run([OPT, "payload.mlir", *options], capture_output=True, text=True, check=True)
    expected = (place / "scheduled.mlir").read_text()
    assert applied.stdout.strip() == expected.strip()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_an_object_is_linked_into_a_c_program(place):
    done = tilewright("compile", "--shape", "3x4x5", "-o", "mm.o", "--header", "mm.h", "--target", "x86-64")
    assert done.returncode == 0
    (place / "main.c").write_text(
        '#include "mm.h"\nfloat a[15], b[20], c[12];\n'
        "int main(void) {\n"
        "  for (int i = 0; i < 15; ++i) a[i] = 1;\n"
        "  for (int i = 0; i < 20; ++i) b[i] = 2;\n"
        "  if (matmul(3, 4, 5, a, 5, b, 4, c, 4)) return 1;\n"
        "  for (int i = 0; i < 12; ++i) if (c[i] != 10) return 2;\n"
        "  return matmul(3, 4, 6, a, 5, b, 4, c, 4) == 1 ? 0 : 3;\n}\n"
    )
    subprocess.run(["cc", "-Wall", "-Werror", "main.c", "mm.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_integers_are_linked_into_a_c_program(place):
    done = tilewright(
        "compile", "--shape", "3x4x5", "--dtype", "u8,i8,i32", "-o", "mm.o", "--header", "mm.h", "--target", "x86-64"
    )
    assert done.returncode == 0
    (place / "main.c").write_text(
        '#include "mm.h"\nuint8_t a[15]; int8_t b[20]; int32_t c[12];\n'
        "int main(void) {\n"
        "  for (int i = 0; i < 15; ++i) a[i] = 255;\n"
        "  for (int i = 0; i < 20; ++i) b[i] = -128;\n"
        "  if (matmul(3, 4, 5, a, 5, b, 4, c, 4)) return 1;\n"
        "  for (int i = 0; i < 12; ++i) if (c[i] != -5 * 255 * 128) return 2;\n"
        "  return 0;\n}\n"
    )
    subprocess.run(["cc", "-Wall", "-Werror", "main.c", "mm.o", "-o", "main"], check=True)
    assert subprocess.run(["./main"], check=False).returncode == 0


@pytest.mark.parametrize("dtype", ["bf16", "u8", "u8,i8,i32", "f16,f16,f16"])
def test_a_payload_is_compiled_again_as_a_file(place, dtype):
    for arguments in (
        ["--shape", "9x10x11", "--dtype", dtype, "--emit", "payload", "-o", "p.mlir"],
        ["p.mlir", "-o", "a.s"],
    ):
        done = tilewright("compile", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    done = tilewright("compile", "--shape", "9x10x11", "--dtype", dtype, "-o", "b.s")
    assert (place / "a.s").read_text() == (place / "b.s").read_text()


@pytest.mark.parametrize("dtype", ["bf16", "i8,u8,i32", "bf16,bf16,bf16"])
def test_run_of_narrow_types(dtype):
    done = tilewright("run", "--shape", "65x67x69", "--shape", "1x3x2", "--dtype", dtype, "--beta", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": ok") == 2


def test_a_file_is_explained(place):
    (place / "m.mlir").write_text(
        "func.func @f(%a: memref<64x32xf32>, %b: memref<32x48xf32>, %c: memref<64x48xf32>) {\n"
        "  linalg.matmul ins(%a, %b : memref<64x32xf32>, memref<32x48xf32>) outs(%c : memref<64x48xf32>)\n"
        "  return\n}\n"
    )
    done = tilewright("explain", "m.mlir", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out/index.html: 64x48x32 f32 nn beta=1 for host")
    assert (place / "out" / "index.html").stat().st_size > 10_000


def test_benchmark(place):
    done = tilewright("bench", "--shape", "48x48x48", "--rounds", "1", "--peers", "none", "--json", "b.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "48x48x48" in done.stdout
    (row,) = json.loads((place / "b.json").read_text())
    assert row["gflops"] > 0
    assert row["rel_error"] < 1e-5
    assert row["compile_seconds"] > 0
