# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other people's tests of a BLAS pass on ours: the short form of `make check-outside`.

The library has one letter and one level of instructions; routines of other types go on to the system's BLAS.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.blas import build, interface

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "outside"))

import array_suites  # noqa: E402
import compiled_suites  # noqa: E402
import netlib_suites  # noqa: E402
import platform_suites  # noqa: E402
import random_suites  # noqa: E402
import suite  # noqa: E402

HOST = tw.targets.resolve("host").features
LEVEL = next((each for each in ("x86-64-v3", "x86-64") if tw.targets.get(each).features <= HOST), "host")
COMPILER = shutil.which("clang-22") or shutil.which("cc")
CALLS = 2_000
needs_netlib = pytest.mark.skipif(
    not netlib_suites.BLAS_TESTERS.is_dir(), reason="netlib's testers, Debian's package libblas-test, are not installed"
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> suite.Blas:
    if not (interface._FOLDER / "service.ll").is_file():
        pytest.skip("tilewright was built without clang")
    folder = tmp_path_factory.mktemp("blas")
    (library,) = build.build(folder, [LEVEL], letters=["d"]).files.values()
    return suite.Blas("ours", library, report=folder / "served")


@needs_netlib
def test_netlib(ours, tmp_path):
    before = ours.served()
    found = netlib_suites.run_blas_quickly(ours, tmp_path)
    assert found.failures == set(), found.details
    # Error exits and values, of each routine: of sixteen in level 2 and of six in level 3, in C in both orders.
    assert found.tests == 62
    assert ours.served() > before + 10_000


@pytest.mark.skipif(COMPILER is None or random_suites.reference() is None, reason="no C compiler, or no BLAS of netlib")
def test_random_calls(ours, tmp_path):
    before = ours.served()
    found = random_suites.run_calls(ours, tmp_path, CALLS, part=CALLS // 2, starts=["d"])
    assert found.failures == set(), found.details
    assert found.tests == CALLS
    # Some have nothing to do.
    assert ours.served() > before + CALLS / 2


@pytest.mark.skipif(platform_suites.missing() is not None, reason="no emulator of x86-64, or no musl-gcc")
@pytest.mark.skipif(LEVEL != "x86-64-v3", reason="the library's code is not for AVX2")
def test_other_processors_and_musl(ours, tmp_path):
    found = platform_suites.run_exactly(ours, tmp_path, ("d",), {"Nehalem": "none", "Haswell": LEVEL})
    assert found.failures == set(), found.details
    assert found.tests == 6 * 192


def test_numpy(ours, tmp_path):
    before = ours.served()
    found = array_suites.run_numpy_quickly(ours, tmp_path)
    if found.failures:  # What fails on numpy's own BLAS too is not ours.
        found.failures -= array_suites.run_numpy_quickly(suite.Blas("system"), tmp_path).failures
    assert found.failures == set(), found.details
    assert found.tests > 100
    assert ours.served() > before + 1000


FAULTS = {
    "value": "((double *)c)[0] *= 1 + 1e-9;",
    "reads C": "if (*(double *)beta == 0) ((double *)c)[0] += 0 * kept;",
    "writes beyond": "((double *)c)[-1] = 0;",
    "writes A": "((double *)a)[0] = 0;",
}


@pytest.mark.skipif(COMPILER is None or random_suites.reference() is None, reason="no C compiler, or no BLAS of netlib")
@pytest.mark.parametrize("fault", FAULTS)
def test_random_calls_notice(fault, tmp_path):
    source, library = tmp_path / "faulty.c", tmp_path / "faulty.so"
    source.write_text(f"""
        #define PASSED ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
        #define TAKEN char *ta, char *tb, int *m, int *n, int *k, void *alpha, void *a, int *lda, void *b, int *ldb, void *beta, \\
          void *c, int *ldc
        #include <dlfcn.h>
        void scipy_dgemm_(TAKEN) {{
          void *blas = dlopen("{random_suites.reference()}", RTLD_NOW);
          int any = *m > 0 && *n > 0 && *k > 0 && *(double *)alpha != 0;
          double kept = any ? *(double *)c : 0;
          ((void (*)(TAKEN))dlsym(blas, "dgemm_"))(PASSED);
          (void)kept;
          if (any) {{ {FAULTS[fault]} }}
        }}
    """)
    suite.built([COMPILER or "cc", "-shared", "-fPIC", source, "-o", library], tmp_path)
    found = random_suites.run_calls(suite.Blas("faulty", library), tmp_path, 60, part=60, starts=["dgemm"])
    assert len(found.failures) > 5


@pytest.mark.skipif(
    compiled_suites.missing_openblas() is not None, reason="OpenBLAS's tests are not here: make setup-outside"
)
def test_forks(ours, tmp_path):
    found = compiled_suites.run_forks_quickly(ours, tmp_path)
    assert found.failures == set(), found.details
    assert found.tests == 2


def test_verdicts_of_testers():
    text = """
 cblas_sgemm  PASSED THE TESTS OF ERROR-EXITS
 cblas_sgemm  PASSED THE COLUMN-MAJOR COMPUTATIONAL TESTS ( 17496 CALLS)
 ******* cblas_sgemm  FAILED ON CALL NUMBER:
 DSYRK  PASSED THE COMPUTATIONAL TESTS (  1296 CALLS) ******* BUT WITH MAXIMUM TEST RATIO   17.13 - SUSPECT *******
"""
    passed, failures = netlib_suites.verdicts(text)
    assert passed == 2
    assert len(failures) == 2
    text = """
 All tests for SQT routines passed the threshold (    510 tests run)
 STR:      3 out of   7672 tests failed to pass the threshold
"""
    assert netlib_suites.lapack_verdicts(text) == (8182, {"STR above the threshold"})


def test_a_program_that_dies_is_a_failure(tmp_path):
    outcome = suite.Outcome()
    status, text = suite.Blas("system").run(["sh", "-c", "echo before; kill -SEGV $$"], tmp_path)
    outcome.add("dies", 3, [], status, text)
    assert outcome.failures == {"dies: ended by SIGSEGV"}
    status, text = suite.Blas("system").run(["sleep", "60"], tmp_path, minutes=0.001)
    outcome.add("sleeps", 1, [], status, text)
    assert "sleeps: ended by SIGKILL" in outcome.failures
    outcome.add("does nothing", 0, [], 0, "")
    assert "does nothing: tested nothing" in outcome.failures
