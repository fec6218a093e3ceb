# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every example runs, as a reader would run it."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tilewright.bench import environments

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CC = shutil.which(os.environ.get("CC", "cc"))
CXX = shutil.which(os.environ.get("CXX", "c++"))
needs_a_c_compiler = pytest.mark.skipif(CC is None, reason="no C compiler: neither CC nor cc names one")


@pytest.fixture
def run(tmp_path):
    """Runs a command with the environment's programs on the path and a cache of its own; returns what it prints."""

    def run(*command: object) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_every_example_is_run_here():
    assert sorted(path.name for path in EXAMPLES.iterdir() if not path.name.startswith((".", "__"))) == [
        "01_matmul.py",
        "02_own_schedule.py",
        "03_mlir_file.mlir",
        "04_link_from_c",
        "05_packed_weights.py",
        "06_epilogues.py",
        "07_transposed.py",
        "08_bert_feed_forward.py",
        "09_mixture_of_experts.py",
        "10_attention_scores.py",
        "11_whole_module.mlir",
        "12_chain.py",
        "13_resnet_bottleneck.py",
        "14_llama_decoder_i4.py",
        "15_attention.py",
        "16_gpu_schedule.py",
        "17_own_target.toml",
        "18_attention_schedule.py",
        "19_library",
        "20_alpha_beta.py",
        "21_torch.py",
        "22_jax.py",
        "23_gguf.py",
        "24_one_binary",
        "25_notebook.ipynb",  # which `test_notebook.py` runs
        "26_torch_compile.py",
        "27_torch_model.py",
        "28_lessons",
        "29_emulate_kernel.ll",  # which `test_emulate.py` runs
        "30_precision.py",
        "31_distributed.py",  # which `test_distributed.py` runs
        "32_scaling.py",
        "33_gpu_operators.py",
        "34_onnxruntime.py",
        "35_paged_attention.py",
    ]


def test_each_lesson_is_right_and_measured(run, tmp_path):
    picture = tmp_path / "lessons.svg"
    printed = run(sys.executable, EXAMPLES / "28_lessons" / "lessons.py", "192", "--svg", picture)
    assert [line.split()[0] for line in printed.splitlines()][:5] == [
        *("loops", "tiles", "vectors", "registers", "panels")
    ]
    assert picture.read_text().startswith("<svg ")


def test_scaling(run, tmp_path):
    picture = tmp_path / "scaling.svg"
    lines = run(sys.executable, EXAMPLES / "32_scaling.py", "--svg", picture).splitlines()
    assert [line.split()[0] for line in lines] == ["red-storm"] * 2 + ["aries"] * 2
    assert "<svg " in picture.read_text()


def test_transposed_weights(run):
    printed = run(sys.executable, EXAMPLES / "07_transposed.py")
    assert printed.startswith("128x3072x768 f32 nt")


def test_alpha_and_beta(run):
    printed = run(sys.executable, EXAMPLES / "20_alpha_beta.py")
    assert "alpha 0 and beta 2: True" in printed
    assert "int64_t ldc, const double *alpha, const double *beta)" in printed


def test_torch(run, monkeypatch):
    python = environments.python("torch")
    if python is None:
        pytest.skip("there is no environment with torch (make setup-frameworks installs it)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    printed = run(python, EXAMPLES / "21_torch.py").splitlines()
    assert len(printed) == 2
    assert all(line.endswith(" True") for line in printed)


def test_torch_model(run, monkeypatch):
    python = environments.python("torch")
    if python is None:
        pytest.skip("there is no environment with torch (make setup-torch installs it)")
    if not (ROOT / "python" / "tilewright" / "torch" / "libtilewright_torch.so").exists():
        pytest.skip("the ops for torch are not built (make setup-torch builds them)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    printed = run(python, EXAMPLES / "27_torch_model.py").splitlines()
    assert printed == ["training: True True", "packed: True", "i8: True", "fused: True"]


def test_jax(run, monkeypatch):
    python = environments.python("jax")
    if python is None:
        pytest.skip("there is no environment with jax (make setup-frameworks installs it)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    printed = run(python, EXAMPLES / "22_jax.py").splitlines()
    assert [line.endswith(" True") for line in printed[:3]] == [True] * 3
    assert "  3*128x96x64 f32 nn a_batch=()" in printed


def test_onnxruntime(run, monkeypatch):
    python = environments.python("onnxruntime")
    if python is None:
        pytest.skip("there is no environment with onnxruntime (make setup-frameworks installs it)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    printed = run(python, EXAMPLES / "34_onnxruntime.py").splitlines()
    assert printed[0] == "<tilewright.onnx.ModelKernels: 2 kernels for 4 of 5 nodes>"
    assert printed[1:] == ["rows: 1, within the bound: True", "rows: 17, within the bound: True"]


def test_one_binary(run, tmp_path, monkeypatch):
    """The same library is called from numpy, torch, JAX, C, C++ and Rust."""
    run(sys.executable, EXAMPLES / "24_one_binary" / "make.py", tmp_path)
    python, torch = environments.python("jax"), environments.python("torch")
    if python is None:
        pytest.skip("there is no environment with tvm-ffi (make setup-frameworks installs it, beside JAX)")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    library = tmp_path / "liblayers.so"
    printed = run(python, EXAMPLES / "24_one_binary" / "use.py", library).splitlines()
    assert printed[:2] + printed[3:] == ["numpy True", "JAX True", "without tilewright True"]
    refused = "rows(a: mx64 f32, b: 64x48 f32) -> mx48 f32: an argument is of another type or rank"
    assert printed[2].startswith(refused)
    (package,) = python.parents[1].glob("lib/python*/site-packages/tvm_ffi")
    if torch is not None:
        (tmp_path / "packages").mkdir()
        for each in (package, package.parent / "typing_extensions.py"):
            (tmp_path / "packages" / each.name).symlink_to(each)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
        assert "torch True" in run(torch, EXAMPLES / "24_one_binary" / "use.py", library)
    if CC is not None:
        headers = [f"-I{package / folder}" for folder in ("include", "3rdparty/dlpack/include")]
        links = [f"-L{package / 'lib'}", "-ltvm_ffi", f"-Wl,-rpath,{package / 'lib'}", "-ldl"]
        run(CC, *headers, EXAMPLES / "24_one_binary" / "use.c", *links, "-o", tmp_path / "use")
        printed = run(tmp_path / "use", library)
        assert printed.startswith("status 0, C[2][47] = 64\nstatus -1, ValueError: rows(")
        if CXX is not None:
            run(CXX, "-std=c++17", *headers, EXAMPLES / "24_one_binary" / "use.cpp", *links, "-o", tmp_path / "use_cpp")
            assert run(tmp_path / "use_cpp", library).startswith("C[2][47] = 64\nValueError: rows(")
        if shutil.which("rustc") is not None:  # which links by the C compiler
            link = ["-L", f"native={package / 'lib'}", "-l", "dylib=tvm_ffi", "-C", f"link-arg={links[2]}"]
            run("rustc", "--edition=2021", *link, EXAMPLES / "24_one_binary" / "use.rs", "-o", tmp_path / "use_rs")
            assert run(tmp_path / "use_rs", library).startswith("C[2][47] = 64\nValueError: rows(")


def test_torch_compile(run, monkeypatch):
    python = environments.python("torch")
    if python is None or not (ROOT / "python/tilewright/torch/libtilewright_torch.so").exists():
        pytest.skip("there is no environment with torch and our ops (make setup-frameworks setup-torch)")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    assert run(python, EXAMPLES / "26_torch_compile.py") == "True\n"


@pytest.mark.parametrize("name", ["08_bert_feed_forward.py", "09_mixture_of_experts.py"])
def test_layers_of_models(run, name):
    printed = run(sys.executable, EXAMPLES / name, 24, 40, 64, 4)
    assert printed.count("right") == {"08": 2, "09": 4}[name[:2]]
    assert "from NumPy in double precision at most" in printed
    assert "\ntorch" in printed


def test_a_decoder_in_four_bits(run):
    printed = run(sys.executable, EXAMPLES / "14_llama_decoder_i4.py", 3, 128, 256, 4, 2)
    assert printed.startswith("7 projections, each within its bound; 4.12 bits a weight\n")
    assert "from NumPy in double precision, relative\ntorch" in printed


def test_pieces_of_bf16(run):
    lines = run(sys.executable, EXAMPLES / "30_precision.py", 20, 24, 40).splitlines()
    assert [each.split(": ")[0] for each in lines] == [
        "20x24x40 f32 nn", *(f"20x24x40 f32 nn precision=bf16x{products}" for products in (3, 6, 9))
    ]  # fmt: skip
    assert "off by" in lines[0]


def test_operators_on_a_gpu(run):
    first, second = run(sys.executable, EXAMPLES / "33_gpu_operators.py").splitlines()
    assert ": right; mma_sync, 8 mma.sync" in first
    assert ": right; shared_softmax, 8 mma.sync" in second


def test_attention_in_pages(run):
    lines = run(sys.executable, EXAMPLES / "35_paged_attention.py").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["prompts", "tokens"] * 2
    assert lines[2:] == ["prompts on sm_90a: right, tiles of 1 heads", "tokens on sm_90a: right, tiles of 3 heads"]


def test_weights_of_a_file(run):
    assert run(sys.executable, EXAMPLES / "23_gguf.py").endswith("96x256 Q4_0>: within the bound: True\n")


def test_a_whole_module(run, tmp_path):
    lines = (EXAMPLES / "11_whole_module.mlir").read_text().splitlines()
    commands = [line.removeprefix("//").split() for line in lines if line.startswith("//   tilewright ")]
    assert run(*commands[0]).endswith(": ok\n")
    files = {"classify.so": tmp_path / "c.so", "classify.h": tmp_path / "c.h"}
    run(*(files.get(word, word) for word in commands[1]))
    assert "int32_t classify(const DLTensor *x_, " in files["classify.h"].read_text()


def test_chain(run):
    printed = run(sys.executable, EXAMPLES / "12_chain.py", 40, 24, 48)
    assert "right: the same bits" in printed
    assert printed.count("GFLOP/s") == 2


def test_epilogues(run):
    printed = run(sys.executable, EXAMPLES / "06_epilogues.py", 20, 40, 30)
    assert printed.count(": right, the largest error is") == 3
    assert "takes a(20, 30), b(30, 40), s(40,)" in printed


def test_matmul(run):
    first = run(sys.executable, EXAMPLES / "01_matmul.py")
    assert "384x1024x1024 f32 nn: compiled in" in first
    assert "right: the largest error" in first
    assert first.count("GFLOP/s") == 2
    assert "1x2x3 f32 nn: compiled" in run(sys.executable, EXAMPLES / "01_matmul.py", 1, 2, 3)
    assert "1x2x3 f32 nn: loaded from the cache" in run(sys.executable, EXAMPLES / "01_matmul.py", 1, 2, 3)


def test_resnet_bottleneck(run):
    printed = run(sys.executable, EXAMPLES / "13_resnet_bottleneck.py", 7, 64, 32)
    assert "bytes of scratch memory" in printed
    assert "torch: " in printed


def test_own_schedule(run):
    printed = run(sys.executable, EXAMPLES / "02_own_schedule.py")
    assert printed.count("GFLOP/s") == 2
    assert "transform.structured.tile_using_for" in printed
    assert "ok" in run("tilewright", "run", "--shape", "8x480x16", "--schedule", EXAMPLES / "02_own_schedule.py")


def test_own_schedule_for_a_gpu(run):
    printed = run(sys.executable, EXAMPLES / "16_gpu_schedule.py")
    assert printed.startswith("right; 128 threads a block")
    assert "#tilewright.pipeline<stages = 4>" in printed
    command = ("--shape", "93x121x61", "--dtype", "bf16", "--target", "sm_80", "--emit", "ptx", "-o", "-")
    assert "cp.async.wait_group" in run(
        "tilewright", "compile", *command, "--schedule", EXAMPLES / "16_gpu_schedule.py"
    )


def test_mlir_file(run, tmp_path):
    run(
        "tilewright",
        "compile",
        EXAMPLES / "03_mlir_file.mlir",
        "-o",
        tmp_path / "project.so",
        "--header",
        tmp_path / "p.h",
    )
    assert "int32_t project(" in (tmp_path / "p.h").read_text()
    rng = np.random.default_rng(0)
    wide = rng.uniform(-1, 1, (96, 80)).astype(np.float32)
    x, w = wide[:, :64], rng.uniform(-1, 1, (64, 128)).astype(np.float32)
    y = np.full((96, 128), np.nan, np.float32)
    project = ctypes.CDLL(str(tmp_path / "project.so")).project
    sizes, matrix = [ctypes.c_int64] * 3, [ctypes.c_void_p, ctypes.c_int64]
    project.argtypes = sizes + 3 * matrix
    assert project(96, 128, 64, x.ctypes.data, 80, w.ctypes.data, 128, y.ctypes.data, 128) == 0
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-4)


def test_the_commands_in_the_mlir_file(run):
    lines = (EXAMPLES / "03_mlir_file.mlir").read_text().splitlines()
    commands = [line.removeprefix("//").split() for line in lines if line.startswith("//   tilewright ")]
    assert len(commands) == 2
    assert "func.func @matmul" in run(*commands[1])


@needs_a_c_compiler
def test_link_from_c(run, tmp_path):
    printed = run(EXAMPLES / "04_link_from_c" / "build.sh", tmp_path)
    assert "100 x 200 x 300: right\nwith another M it returns 1\n" in printed


@needs_a_c_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
def test_library(run, tmp_path):
    printed = run(EXAMPLES / "19_library" / "build.sh", tmp_path)
    assert (
        "C: right, also with the instructions of x86-64\nC++: right; with other extents matmul returns 1\n" in printed
    )
    assert ("Rust: right" in printed) == (shutil.which("rustc") is not None)


def test_packed_weights(run):
    printed = run(sys.executable, EXAMPLES / "05_packed_weights.py", 100, 200)
    assert printed.count("rows: right") == 4
    assert "refused: operand b: it is packed in another format: B of 200x100 f32" in printed


def test_attention(run):
    printed = run(sys.executable, EXAMPLES / "15_attention.py")
    sizes = r"online_softmax: .*vectorize="
    assert re.fullmatch(rf"{sizes}queries.* and {sizes}head.*\n\d{{6}} bytes beyond operands\n", printed)


def test_attention_schedule(run):
    first, second = run(sys.executable, EXAMPLES / "18_attention_schedule.py").splitlines()
    assert re.fullmatch(r"chosen: online_softmax: .*vectorize=queries.*, right", first)
    assert re.fullmatch(r"own: online_softmax: kc=32, .*merged=True, vectorize=head.*, right", second)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_own_target(run):
    target = EXAMPLES / "17_own_target.toml"
    assert "fmla" in run("tilewright", "compile", "--shape", "32x32x32", "--target", target, "--emit", "asm", "-o", "-")
