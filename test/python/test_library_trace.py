# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that were linked with a library write a trace of what they call, and a library is built of it."""

import json
import shutil
import subprocess

import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.cli import main
from tilewright.libraries import traces

CC = shutil.which("cc")
LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
needs_c = pytest.mark.skipif(CC is None, reason="no C compiler")
KERNELS = {
    "small": tw.MatmulSpec(m=3, n=5, k=4),
    "open_rows": tw.MatmulSpec(m=None, n=5, k=4, layout="tn"),
    "fused": tw.MatmulSpec(m=None, n=5, k=4, epilogue=(tw.bias("n"),)),
    "packs": tw.MatmulSpec(m=3, n=5, k=4, b_packed=True),
}
PROGRAM = """
#include "mine.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static float a[64], b[64], c[64], packed[4096];
static int64_t shape_a[] = {7, 4}, shape_b[] = {4, 5}, shape_bias[] = {5}, shape_c[] = {7, 5};
static DLTensor tensor(void *data, int32_t rank, int64_t *shape) {
  DLTensor made = {data, {1, 0}, rank, {2, 32, 1}, shape, 0, 0};
  return made;
}
static int calls(void) {
  DLTensor ta = tensor(a, 2, shape_a), tb = tensor(b, 2, shape_b), tbias = tensor(c, 1, shape_bias), tc = tensor(c, 2, shape_c);
  for (int i = 0; i < 3; ++i) if (small(3, 5, 4, a, 4, b, 5, c, 5)) return 1;
  if (small(4, 5, 4, a, 4, b, 5, c, 5) != 1) return 2;  /* not counted */
  for (int i = 0; i < 4; ++i) if (open_rows(1 + i / 3, 5, 4, a, 4, b, 5, c, 5)) return 3;
  if (packs_pack_b(4, 5, b, 5, packed) || packs(3, 5, 4, a, 4, packed, 0, c, 5)) return 4;
  return fused(&ta, &tb, &tbias, &tc) ? 5 : 0;
}
static int child(int (*what)(void)) {
  int status = 0;
  pid_t made = fork();
  if (made == 0) exit(what());
  return waitpid(made, &status, 0) != made || status != 0;
}
static int nothing(void) { return 0; }
static int once(void) { return small(3, 5, 4, a, 4, b, 5, c, 5); }
int main(int argc, char **argv) {
  if (argc > 1 && calls()) return 1;
  if (argc > 1 && (child(nothing) || child(once))) return 2;
  return argc > 2 && !strcmp(argv[2], "abort") ? (_exit(0), 0) : 0;
}
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "cache"))
        return tw.library(KERNELS, targets=["x86-64"], name="mine", out=folder)


@pytest.fixture(scope="module")
def program(mine):
    (mine.folder / "main.c").write_text(PROGRAM)
    command = [CC, "-Wall", "-Werror", f"-I{mine.folder}", mine.folder / "main.c", mine.folder / "libmine.a", "-lm"]
    done = subprocess.run(
        [*map(str, command), "-o", str(mine.folder / "main")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return mine.folder / "main"


def run(program, *arguments, **variables):
    done = subprocess.run([str(program), *arguments], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def shapes(file):
    """How often each kernel was called with which shapes, as the trace's lines say."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(each["threads"] == 1 for each in lines)
    return sorted((each["computes"], str(each["shapes"]), each["calls"]) for each in lines)


EXPECTED = sorted(
    [
        ("3x5x4 f32 nn", "[[3, 4], [4, 5]]", 1),  # of the child that calls; what its parent counted is its parent's
        ("3x5x4 f32 nn", "[[3, 4], [4, 5]]", 3),
        (str(KERNELS["open_rows"]), "[[4, 1], [4, 5]]", 3),
        (str(KERNELS["open_rows"]), "[[4, 2], [4, 5]]", 1),
        (str(KERNELS["packs"]), "[[3, 4], None]", 1),
        (str(KERNELS["fused"]), "[[7, 4], [4, 5], [5]]", 1),
    ]
)


@needs_c
def test_a_program_writes_what_it_calls(program, tmp_path, capsys):
    file = tmp_path / "calls.json"
    run(program, "call", TILEWRIGHT_TRACE=str(file))
    assert shapes(file) == EXPECTED
    run(program, "call", TILEWRIGHT_TRACE=str(file))
    assert shapes(file) == sorted(EXPECTED * 2)
    assert set(traces.read(file).calls) == set(KERNELS.values())
    assert traces.read(file).calls[KERNELS["small"]] == 8
    assert main(["library", "--trace", str(file), "--targets", "x86-64", "-o", str(tmp_path / "out")]) == 0
    assert "4 kernels for x86-64" in capsys.readouterr().out


@needs_c
def test_nothing_is_written_where_there_is_nothing_to_say(program, tmp_path):
    file = tmp_path / "calls.json"
    run(program, "call")
    run(program, "call", TILEWRIGHT_TRACE="")
    run(program, TILEWRIGHT_TRACE=str(file))
    assert not file.exists()
    run(program, "call", "abort", TILEWRIGHT_TRACE=str(file))
    assert shapes(file) == [EXPECTED[0]]
    said = run(program, "call", TILEWRIGHT_TRACE=str(tmp_path / "absent" / "calls.json"))
    assert said == "tilewright: cannot write the file that TILEWRIGHT_TRACE names\n" * 2  # the child says so too


def test_calls_of_several_threads_are_counted(mine, tmp_path, monkeypatch):
    file = tmp_path / "calls.json"
    monkeypatch.setenv("TILEWRIGHT_TRACE", str(file))
    in_new_process(f"""
        import ctypes, threading
        rows = ctypes.CDLL({str(mine.folder / "libmine.so")!r}).open_rows
        room = ctypes.create_string_buffer(4096)
        number = ctypes.c_int64
        def calls():
            for i in range(1, 201):
                assert rows(number(i % 5 + 1), number(5), number(4), room, number(8), room, number(8), room, number(8)) == 0
        threads = [threading.Thread(target=calls) for _ in range(4)]
        [each.start() for each in threads]
        [each.join() for each in threads]
    """)
    counted = dict.fromkeys(range(1, 6), 0)
    for line in map(json.loads, file.read_text().splitlines()):
        counted[line["shapes"][0][1]] += line["calls"]
    assert counted == dict.fromkeys(range(1, 6), 160)


def test_the_trace_of_a_library_is_that_of_python(mine, tmp_path, monkeypatch):
    for name, body in {
        "python": "tw.matmul(a, b)",
        "library": f"""ctypes.CDLL({str(mine.folder / "libmine.so")!r}).small(
            *(ctypes.c_int64(each) for each in (3, 5, 4)),
            *(each for x in (a, b, c) for each in (ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1]))))""",
    }.items():
        monkeypatch.setenv("TILEWRIGHT_TRACE", str(tmp_path / name))
        in_new_process(
            "import ctypes, numpy as np, tilewright as tw\n"
            "a, b, c = (np.ones(each, np.float32) for each in ((3, 4), (4, 5), (3, 5)))\n" + body
        )
    assert (tmp_path / "library").read_text() == (tmp_path / "python").read_text()
