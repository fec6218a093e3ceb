# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The BLAS over kernels: every routine and flag, wrong arguments, what goes on to another BLAS, counting, registering."""

import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
import unittest.mock
from dataclasses import replace

import blas_calls
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from test_docs import ROOT, blocks
from tilewright.blas import alternatives, build, interface, names, running
from tilewright.cli import main
from tilewright.errors import SpecError, TilewrightError

HOST = tw.targets.resolve("host").features
LEVEL = next((each for each in ("x86-64-v3", "x86-64") if tw.targets.get(each).features <= HOST), "host")
KINDS = ("fortran", "cblas rows", "cblas columns", "fortran 64", "cblas rows 64", "cblas columns 64")
SYSTEM = ctypes.util.find_library("blas")
pytestmark = [
    pytest.mark.skipif(not (interface._FOLDER / "service.ll").is_file(), reason="tilewright was built without clang"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy's, of NaN
]


@pytest.fixture(scope="module")
def letters(request):
    """Those that are tested: the kernels of all take some minutes to compile."""
    return ["s"] if request.config.getoption("--length") == "short" else ["s", "d", "c", "z"]


@pytest.fixture(scope="module")
def made(letters, tmp_path_factory):
    """A library for one level, with one kernel for a shape."""
    return build.build(tmp_path_factory.mktemp("blas"), [LEVEL], letters=letters, shapes=[tw.MatmulSpec(24, 40, 8)])


@pytest.fixture(scope="module")
def library(made):
    (path,) = made.files.values()
    return path


@pytest.mark.parametrize("routine", dict.fromkeys(blas_calls.ROUTINES + blas_calls.OF_COMPLEX))
def test_random_calls_with_every_flag(library, letters, routine):
    blas = blas_calls.Blas(library)
    for letter in letters:
        if routine not in (blas_calls.OF_COMPLEX if letter in "cz" else blas_calls.ROUTINES):
            continue
        for number in range(40):
            for kind in KINDS:
                blas_calls.check(blas, np.random.default_rng([number, len(kind)]), letter, routine, kind, 20)
        for number, largest in enumerate((90, 150)):  # beyond the sizes at which recursion ends
            for kind in KINDS[:3]:
                rng = np.random.default_rng([number, 7, len(kind)])
                blas_calls.check(blas, rng, letter, routine, kind, largest)


@pytest.mark.skipif(LEVEL in ("x86-64", "host"), reason="the library's code is for every processor")
def test_a_processor_below_every_level_gets_right_results(library):
    program = f"""
import sys; sys.path.insert(0, {str(ROOT / "test" / "python")!r})
import blas_calls, numpy as np
blas = blas_calls.Blas({str(library)!r})
for routine in ("gemm", "trsm", "trmm", "syrk"):
    for number in range(20):
        for kind in ("cblas rows", "cblas columns"):
            blas_calls.check(blas, np.random.default_rng(number), "s", routine, kind, 40)
"""
    capped = {**os.environ, "TILEWRIGHT_MAX_ISA": "x86-64"}
    subprocess.run([sys.executable, "-I", "-W", "ignore", "-c", program], env=capped, check=True)


def test_a_kernel_of_a_trace_computes_its_shape(made, library):
    assert made.kernels == 1
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((24, 8), (8, 40), (24, 40)))
    call = blas_calls.Call(
        ["N", "N"], [24, 40, 8], [np.float32(1), a, 8, b, 40, np.float32(0), c, 40], c, a @ b, np.full_like(c, 1e-5)
    )
    blas_calls.Blas(library).call("s", "gemm", call, "cblas rows")
    assert np.abs(c - a @ b).max() < 1e-5


@pytest.mark.parametrize("beta", [0, 1, -0.5])
def test_one_row_by_a_matrix_from_memory(library, beta):
    """Of which the routines take some rows at a time."""
    n, k = 4099, 1025
    assert n * k * 4 > 1 << 24
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, k), (k, n), (1, n)))
    expected, kept = 0.7 * (a.astype(float) @ b) + beta * c.astype(float), c.copy()
    # Each element is a sum of k products, rounded at most k + 2 times.
    bound = (k + 2) * 2.0**-24 * (np.abs(a) @ np.abs(b) + np.abs(c))
    factors = np.float32(0.7), np.float32(beta)
    if beta == 0:
        c[...] = np.nan
    call = blas_calls.Call(["N", "N"], [1, n, k], [factors[0], a, k, b, n, factors[1], c, n], c, expected, bound)
    blas_calls.Blas(library).call("s", "gemm", call, "cblas rows")
    assert (np.abs(c - expected) <= bound).all()
    y = np.full(n, np.nan, np.float32) if beta == 0 else kept[0]
    call = blas_calls.Call(["T"], [k, n], [factors[0], b, n, a[0], 1, factors[1], y, 1], y, expected[0], bound[0])
    blas_calls.Blas(library).call("s", "gemv", call, "cblas rows")
    assert (np.abs(y - expected[0]) <= bound[0]).all()


def test_a_library_of_the_same_bits_has_kernels_of_one_order_alone():
    letter = replace(build.LETTERS["d"], deterministic=True)
    column, row = (tw.MatmulSpec(m, n, 8, "f64") for m, n in ((24, 1), (1, 24)))
    assert all(each.deterministic for each in letter.general().values())
    assert letter.own(column) is None
    assert letter.own(row) == ("tilewright_f64_nn_1x24x8", letter.spec("nn", 1, 24, 8))


def test_a_factor_of_zero_raises_no_exception_of_floating_point(library):
    blas, libm = blas_calls.Blas(library), ctypes.CDLL("libm.so.6")
    for m, n, k in ((50, 50, 50), (3, 7, 1), (1, 40, 8)):
        a, b, c = np.ones((m, k), np.float32), np.ones((k, n), np.float32), np.full((m, n), np.inf, np.float32)
        arguments = [np.float32(1), a, k, b, n, np.float32(0), c, n]
        libm.feclearexcept(0x1D)
        blas.call("s", "gemm", blas_calls.Call(["N", "N"], [m, n, k], arguments, c, c, 0), "cblas rows")
        assert libm.fetestexcept(0x1D) == 0
        assert (c == k).all()


WRONG = """
import ctypes, sys
blas = ctypes.CDLL(sys.argv[1])
one, minus = ctypes.c_int(1), ctypes.c_int(-1)
f = ctypes.c_float(1)
by = ctypes.byref
blas.sgemm_(b"N", b"X", by(one), by(one), by(one), by(f), None, by(one), None, by(one), by(f), None, by(one))
blas.ssyr2k_(b"U", b"N", by(one), by(minus), by(f), None, by(one), None, by(one), by(f), None, by(one))
blas.cblas_strsm(101, 141, 121, 111, 131, -1, 1, f, None, 1, None, 1)
blas.cblas_sgemm(7, 111, 111, 1, 1, 1, f, None, 1, None, 1, f, None, 1)
"""
SAID = """\
 ** On entry to SGEMM parameter number 2 had an illegal value
 ** On entry to SSYR2K parameter number 4 had an illegal value
Parameter 6 to routine cblas_strsm was incorrect
Parameter 1 to routine cblas_sgemm was incorrect
"""


def test_wrong_arguments_are_told_and_nothing_is_computed(library):
    done = subprocess.run([sys.executable, "-I", "-c", WRONG, library], capture_output=True, text=True, check=True)
    assert done.stderr == SAID


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_callers_handler_is_told(library, tmp_path):
    (tmp_path / "main.c").write_text("""
        #include <stdint.h>
        #include <stdio.h>
        void xerbla_(const char *name, const int *number, size_t length) { printf("%.6s %d\\n", name, *number); }
        void strmm_(const char *, const char *, const char *, const char *, const int *, const int *, const float *, const float *,
                    const int *, float *, const int *);  /* without the lengths of the texts */
        int main(void) {
          int one = 1; float f = 1;
          strmm_("L", "U", "N", "Q", &one, &one, &f, &f, &one, &f, &one);
          return 0;
        }
    """)
    subprocess.run(["cc", tmp_path / "main.c", library, "-o", tmp_path / "main"], check=True)
    (tmp_path / names.SONAME).symlink_to(library)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "STRMM  4\n"


@pytest.mark.skipif(SYSTEM is None, reason="no BLAS is installed")
def test_everything_else_goes_on_with_all_its_arguments(library):
    blas = ctypes.CDLL(str(library))
    x, y = np.arange(5, dtype=np.float64), np.full(5, 2, np.float64)
    at = [each.ctypes.data_as(ctypes.c_void_p) for each in (x, y)]
    blas.cblas_ddot.restype = ctypes.c_double
    assert blas.cblas_ddot(5, at[0], 1, at[1], 1) == 20
    a, c = np.eye(2) * 3, np.zeros((2, 2))
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (a, c)]
    one = ctypes.c_double(1)
    # Fourteen arguments, of registers of both kinds and of the stack.
    blas.cblas_dgemm(101, 111, 111, 2, 2, 2, one, pointers[0], 2, pointers[0], 2, one, pointers[1], 2)
    assert (c == a @ a).all()


def test_a_program_is_run_and_its_calls_are_counted(library, tmp_path, capfd, monkeypatch):
    program = """
import ctypes
blas = ctypes.CDLL(None)
f = (ctypes.c_float * 64)()
one = ctypes.c_float(1)
for _ in range(3):
    blas.cblas_sgemm(101, 111, 112, 4, 4, 4, one, f, 4, f, 4, one, f, 4)
blas.cblas_ssyrk(101, 121, 111, 2, 2, one, f, 2, one, f, 2)
four, by = ctypes.c_int(4), ctypes.byref
blas.sgemm_(b"T", b"N", by(four), by(four), by(four), by(one), f, by(four), f, by(four), by(one), f, by(four))
raise SystemExit(5)
"""
    monkeypatch.setenv("TILEWRIGHT_TRACE", str(tmp_path / "trace"))
    command = ["blas", "run", "--no-gain", "--library", str(library), sys.executable, "-I", "-c", program]
    assert main(command) == 5
    said = capfd.readouterr().err.splitlines()
    assert said[0] == f"tilewright: served by {LEVEL} in 1 process: sgemm 4, ssyrk 1"
    assert "4x4x4 f32 nt alpha=arg beta=arg 4 times" in said[2]
    found = running.traces.read(tmp_path / "trace").calls
    assert found[tw.MatmulSpec(4, 4, 4, layout="nt", alpha="arg", beta="arg")] == 4


FORKED = """
import ctypes, os, sys, threading, time
blas = ctypes.CDLL(sys.argv[1])
f, one = (ctypes.c_float * 4)(), ctypes.c_float(1)
call = lambda: blas.cblas_sgemm(101, 111, 111, 1, 1, 1, one, f, 1, f, 1, one, f, 1)
go = True
def calls():
    while go:
        call()
threads = [threading.Thread(target=calls) for _ in range(3)]
sys.setswitchinterval(1e-5)
[each.start() for each in threads]
stuck = 0
for _ in range(150):
    child = os.fork()
    if not child:
        call()
        os._exit(0)
    for _ in range(2000):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.001)
    else:
        stuck += 1
        os.kill(child, 9)
        os.waitpid(child, 0)
        break
go = False
[each.join() for each in threads]
print(stuck)
"""


def test_a_child_that_is_forked_while_another_thread_counts_counts_too(library, tmp_path):
    environment = {**os.environ, "TILEWRIGHT_BLAS_REPORT": str(tmp_path / "report")}
    command = [sys.executable, "-I", "-W", "ignore", "-c", FORKED, library]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
    assert done.stdout.strip() == "0"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_every_library_that_calls_went_on_to_is_named(library, tmp_path):
    others = [tmp_path / f"{name}.so" for name in ("cblas_dcopy", "cblas_dscal")]
    for other in others:
        other.with_suffix(".c").write_text(f"void {other.stem}(void) {{}}")
        subprocess.run(["cc", "-shared", "-fPIC", other.with_suffix(".c"), "-o", other], check=True)
    program = """
import ctypes, os, sys
blas = ctypes.CDLL(None)
for file, name in zip(sys.argv[1:], ("cblas_dcopy", "cblas_dscal")):
    os.environ["TILEWRIGHT_BLAS_FALLBACK"] = file
    getattr(blas, name)()
"""
    served = running.run([sys.executable, "-I", "-c", program, *map(str, others)], library)
    assert served.status == 0
    assert set(served.forwarded) == {other.stem for other in others}
    assert set(served.fallbacks) == set(map(str, others))


def test_running_refuses_what_is_not_there(library, capfd):
    assert main(["blas", "run", "--library", "nowhere.so", "true"]) == 2
    assert "nowhere.so: no library" in capfd.readouterr().err
    assert main(["blas", "run", "--library", str(library), "/nowhere/program"]) == 2
    assert "/nowhere/program: cannot run it" in capfd.readouterr().err
    with unittest.mock.patch.object(build, "build", side_effect=AssertionError("built for nothing")):
        assert main(["blas", "run", "/nowhere/program"]) == 2
    with pytest.raises(SpecError, match="letters are"):
        build.build("nowhere", letters=["q"])


def test_no_name_of_another_abi_is_exported(library):
    assert not hasattr(ctypes.CDLL(str(library)), "cblas_sgemm_batch")


@pytest.mark.skipif(shutil.which("update-alternatives") is None, reason="no update-alternatives")
def test_installing_is_undone(library, tmp_path, monkeypatch):
    links, state = tmp_path / "links", tmp_path / "state"
    links.mkdir()
    state.mkdir()
    link = tmp_path / names.SONAME
    monkeypatch.setattr(alternatives, "_link", lambda: (str(link), names.SONAME))
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":/usr/sbin:/sbin")
    options = ["--altdir", str(links), "--admindir", str(state), "--log", str(tmp_path / "log")]
    other = tmp_path / "other.so"
    other.write_text("")
    register = ["update-alternatives", *options, "--install", str(link), names.SONAME, str(other), "10"]
    subprocess.run(register, check=True, capture_output=True)
    planned = alternatives.install(library, tmp_path / "lib", options, dry_run=True)
    assert link.resolve() == other
    assert alternatives.install(library, tmp_path / "lib", options) == planned
    assert link.resolve() == tmp_path / "lib" / library.name
    assert link.resolve().read_bytes() == library.read_bytes()
    alternatives.uninstall(tmp_path / "lib", options)
    assert link.resolve() == other
    assert not (tmp_path / "lib" / library.name).exists()


def test_only_root_registers(library, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TilewrightError, match=r"only root.*As root: install -D"):
        alternatives.install(library)
    with pytest.raises(TilewrightError, match="no library"):
        alternatives.install(library.with_name("nowhere.so"))


def test_the_page_says_what_happens(library, tmp_path):
    (tmp_path / "blas").mkdir()
    (tmp_path / "blas" / library.name).symlink_to(library)
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(ROOT / "docs" / "how-to" / "blas.md"):
        if block.language == "sh":
            done = subprocess.run(
                ["sh", "-euc", f"exec 2>&1\n{block.code}"],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                check=False,
            )
            block.assert_prints(done.stdout)


def test_smaller_types(request, tmp_path):
    if request.config.getoption("--length") == "short":
        pytest.skip("their kernels take minutes to compile: make check-long")
    (path,) = build.build(tmp_path, [LEVEL], letters=["sb", "sh", "s8u8"]).files.values()
    blas, one = ctypes.CDLL(str(path)), ctypes.c_float(1)
    for number in range(100):
        rng = np.random.default_rng(number)
        m, n, k = (int(each) for each in rng.integers(1, 40, 3))
        by_row, ta, tb = (bool(each) for each in rng.integers(2, size=3))

        def stored(matrix, turned, by_row=by_row):
            kept = np.ascontiguousarray(matrix.T if turned == by_row else matrix)
            return kept, kept.ctypes.data_as(ctypes.c_void_p), kept.shape[1]

        for name, kind in (("sbgemm", ml_dtypes.bfloat16), ("gemm_f16f16f32", np.float16), ("s8u8", np.uint8)):
            ends = [(-1, 1), (-1, 1)] if name != "s8u8" else [(0, 256), (-128, 128)][:: 1 if by_row else -1]
            kinds = (kind, kind) if name != "s8u8" else (np.uint8, np.int8)[:: 1 if by_row else -1]
            a = rng.uniform(*ends[0], (m, k)).astype(kinds[0])
            b = rng.uniform(*ends[1], (k, n)).astype(kinds[1])
            c = rng.integers(-9, 9, (m, n)).astype(np.int32 if name == "s8u8" else np.float32)
            (_a, at_a, lda), (_b, at_b, ldb), (to, at_c, ldc) = stored(a, ta), stored(b, tb), stored(c, False)
            flags = (101 if by_row else 102, 112 if ta else 111, 112 if tb else 111)
            if name == "s8u8":
                left, right, offsets = 3, -5, np.arange(m, dtype=np.int32)
                products = (a.astype(int) + left) @ (b.astype(int) + right)
                expected = np.rint(0.5 * products + c + offsets[:, None])
                oc, half_ = offsets.ctypes.data_as(ctypes.c_void_p), ctypes.c_float(0.5)
                blas.cblas_gemm_s8u8s32(
                    *(*flags, 172, m, n, k, half_, at_a, lda, left, at_b, ldb, right, one, at_c, ldc, oc)
                )
            else:
                expected = a.astype(float) @ b.astype(float) + c
                getattr(blas, f"cblas_{name}")(*flags, m, n, k, one, at_a, lda, at_b, ldb, one, at_c, ldc)
            assert np.abs((to if by_row else to.T) - expected).max() <= (0 if name == "s8u8" else 1e-4), name
