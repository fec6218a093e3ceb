# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries of several threads: by OpenMP, and in a pool of the program's own."""

import ctypes
import shutil
import subprocess
import threading

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.errors import LoweringError
from tilewright.libraries import pool
from tilewright.runtime.openmp import openmp_file

LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
CC, NM = shutil.which("cc"), shutil.which("nm") or shutil.which("llvm-nm-22")
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
SHAPE = (301, 310, 320)
KERNELS = {
    "large": tw.MatmulSpec(*SHAPE),
    "any_rows": tw.MatmulSpec(m=None, n=310, k=320),
    "deep": tw.MatmulSpec(m=16, n=16, k=30000),
}
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, TASK, ctypes.c_void_p)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pooled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "cache"))
        return tw.library(KERNELS, targets=["x86-64", "x86-64-v3"], name="pooled", out=folder, threads=4, own_pool=True)


def operands(m, n, k):
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), -1, np.float32)


def call(library, name, m, n, k):
    a, b, c = operands(m, n, k)
    pointers = [each for x in (a, b, c) for each in (ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1]))]
    status = getattr(library, name)(*map(ctypes.c_int64, (m, n, k)), *pointers)
    assert status == 0
    assert (c == a @ b).all()


def in_order(seen):
    """A pool that does one task after the other, the last one first."""

    @RUN
    def run(context, count, task, data):
        seen.append((context, count))
        for index in reversed(range(count)):
            task(data, index)

    return run


def at_once(seen):
    """A pool of new threads."""

    @RUN
    def run(context, count, task, data):
        seen.append((context, count))
        threads = [threading.Thread(target=task, args=(data, index)) for index in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    return run


@pytest.mark.parametrize("kind", [in_order, at_once])
def test_the_programs_pool_runs_the_parts(pooled, kind):
    library = ctypes.CDLL(str(pooled.folder / "libpooled.so"))
    seen = []
    run = kind(seen)
    for threads, most in ((1, None), (3, 3), (4, 4), (1000, 4)):
        library.pooled_set_pool(run, ctypes.c_void_p(77), ctypes.c_int32(threads))
        for name, shape in (
            ("large", SHAPE),
            ("any_rows", (299, 310, 320)),
            ("any_rows", (1, 310, 320)),
            ("deep", (16, 16, 30000)),
        ):
            seen.clear()
            call(library, name, *shape)
            if name == "large":
                assert bool(seen) == (most is not None)
            assert all(context == 77 and 1 < count <= (most or 1) for context, count in seen)
    library.pooled_set_pool(None, None, ctypes.c_int32(4))
    seen.clear()
    call(library, "large", *SHAPE)
    assert seen == []


def test_it_needs_no_openmp(pooled):
    program = f"""
        import ctypes
        ctypes.CDLL({str(pooled.folder / "libpooled.so")!r})
        print("libomp" in open("/proc/self/maps").read())
    """
    assert in_new_process(program) == "False\n"
    assert "libomp" not in (pooled.folder / "pooled.h").read_text()
    assert "OpenMP" not in (pooled.folder / "pooledConfig.cmake").read_text()


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_c_programs_give_a_pool(pooled, tmp_path):
    (tmp_path / "main.c").write_text("""
        #include "pooled.h"
        #include <pthread.h>
        #include <stdlib.h>
        typedef struct { void (*task)(void *, int32_t); void *data; int32_t index; } part;
        static void *one(void *given) { part *p = given; p->task(p->data, p->index); return NULL; }
        static void run(void *seen, int32_t count, void (*task)(void *, int32_t), void *data) {
          pthread_t threads[4];
          part parts[4];
          *(int *)seen += count;
          for (int i = 0; i < count; ++i) {
            parts[i] = (part){task, data, i};
            pthread_create(&threads[i], NULL, one, &parts[i]);
          }
          for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
        }
        int main(void) {
          int seen = 0;
          float *a = malloc(4 * 301 * 320), *b = malloc(4 * 320 * 310), *c = malloc(4 * 301 * 310);
          for (int i = 0; i < 301 * 320; ++i) a[i] = 1;
          for (int i = 0; i < 320 * 310; ++i) b[i] = 1;
          pooled_set_pool(run, &seen, 4);
          if (large(301, 310, 320, a, 320, b, 310, c, 310) != 0 || seen < 2) return 1;
          for (int i = 0; i < 301 * 310; ++i) if (c[i] != 320) return 2;
          return 0;
        }
    """)
    command = [CC, "-Wall", "-Werror", f"-I{pooled.folder}", tmp_path / "main.c", pooled.folder / "libpooled.a"]
    done = subprocess.run(
        [*map(str, command), "-lpthread", "-o", str(tmp_path / "main")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(tmp_path / "main")], check=False).returncode == 0


@pytest.fixture(scope="module")
def teams(tmp_path_factory):
    openmp_file()
    folder = tmp_path_factory.mktemp("teams")
    return tw.library({"large": KERNELS["large"]}, targets=["x86-64-v3"], name="teams", out=folder, threads=2)


def test_openmp_runs_them_otherwise(teams):
    assert "libomp" in (teams.folder / "teams.h").read_text()
    assert "find_dependency(OpenMP)" in (teams.folder / "teamsConfig.cmake").read_text()
    call(ctypes.CDLL(str(teams.folder / "libteams.so")), "large", *SHAPE)
    if NM is not None:  # Nothing of OpenMP's is defined for others.
        listed = subprocess.run(
            [NM, "-D", "--defined-only", str(teams.folder / "libteams.so")], capture_output=True, text=True, check=True
        )
        assert "kmpc" not in listed.stdout


FORKS = """
#include <{name}.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static float a[301 * 320], b[320 * 310], c[301 * 310];
static int calls(void) {{
  for (int i = 0; i < 301 * 310; ++i) c[i] = -1;
  if (large(301, 310, 320, a, 320, b, 310, c, 310) != 0) return 1;
  for (int i = 0; i < 301 * 310; ++i) if (c[i] != 320) return 2;
  return 0;
}}
/* A child calls, and a child of its own before and after. */
static int children(int depth) {{
  pid_t child = fork();
  if (child == 0) {{
    alarm(60);
    if (depth > 0 && children(depth - 1)) _exit(4);
    if (calls()) _exit(3);
    _exit(depth > 0 ? children(depth - 1) : 0);
  }}
  int status = -1;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}}
{pool}
int main(void) {{
  alarm(60);
  for (int i = 0; i < 301 * 320; ++i) a[i] = 1;
  for (int i = 0; i < 320 * 310; ++i) b[i] = 1;
  {setup}
  if (children(1)) return 10;  /* before any call here */
  if (calls()) return 11;
  if (children(1)) return 12;  /* with threads here, which a child has not */
  return calls() ? 13 : 0;
}}
"""
POOL = """
typedef struct { void (*task)(void *, int32_t); void *data; int32_t index; } part;
static void *one(void *given) { part *p = given; p->task(p->data, p->index); return NULL; }
static void run(void *pool, int32_t count, void (*task)(void *, int32_t), void *data) {
  pthread_t threads[4];
  part parts[4];
  for (int i = 0; i < count; ++i) {
    parts[i] = (part){task, data, i};
    pthread_create(&threads[i], NULL, one, &parts[i]);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}
"""


def forks(folder, made, options, pool="", setup=""):
    """Compiles the program that forks, and runs it."""
    (folder / "forks.c").write_text(FORKS.format(name=made.name, pool=pool, setup=setup))
    command = [
        CC,
        "-Wall",
        "-Werror",
        f"-I{made.folder}",
        folder / "forks.c",
        *options,
        "-lpthread",
        "-o",
        folder / "forks",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(folder / "forks")], check=False).returncode == 0


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_a_process_with_a_pool_forks(pooled, tmp_path):
    setup = "pooled_set_pool(run, NULL, 4);"
    forks(tmp_path, pooled, [pooled.folder / "libpooled.a"], POOL, setup)


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_a_process_with_openmp_forks(teams, tmp_path):
    forks(tmp_path, teams, [f"-L{teams.folder}", "-lteams", f"-Wl,-rpath,{teams.folder}"])


def test_what_is_not_known_of_openmp_is_said():
    with pytest.raises(LoweringError, match="a kernel calls __kmpc_barrier; expected one of __kmpc_fork_call"):
        pool.renamed("call void @__kmpc_barrier(ptr @1)")
