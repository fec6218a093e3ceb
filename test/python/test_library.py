# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries of many kernels: linked from C and C++, run under every processor's features, capped, refused."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.cli import main
from tilewright.errors import SpecError, TargetError, TilewrightError
from tilewright.libraries.archive import archive

CC, CXX, CMAKE, PKG_CONFIG = (shutil.which(each) for each in ("cc", "c++", "cmake", "pkg-config"))
MUSL = shutil.which("musl-gcc")
LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
HERE = frozenset(tw.targets.resolve("host").features)
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
needs_c = pytest.mark.skipif(CC is None, reason="no C compiler")

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "sapphirerapids")
KERNELS = {
    "small": tw.MatmulSpec(m=3, n=5, k=4),
    "open_rows": tw.MatmulSpec(m=None, n=5, k=tw.Dim(min=1, max=64)),
    "tiles": tw.MatmulSpec(m=16, n=16, k=32, a="bf16"),
    "packs": tw.MatmulSpec(m=3, n=5, k=4, b_packed=True),
    "fused": tw.MatmulSpec(m=3, n=5, k=4, epilogue=(tw.bias("n"), tw.relu())),
}
PROGRAM = """
#include "mine.h"
#include <stdio.h>
#include <stdlib.h>
static const char *said(const char *level) { return level ? level : "none"; }
int main(int argc, char **argv) {
  float a[12], b[20], c[15], packed[4096], bias[5] = {1, 1, 1, 1, -40};
  unsigned short h[512];
  for (int i = 0; i < 12; ++i) a[i] = i;
  for (int i = 0; i < 20; ++i) b[i] = 1;
  for (int i = 0; i < 512; ++i) h[i] = 0x3f80;  /* 1 in bf16 */
  for (int i = 0; i < argc; ++i) {
    if (i > 0) printf("%d ", mine_isa(argv[i][0] ? argv[i] : NULL));
    printf("%s %s %s:", said(mine_selected()), said(small_selected()), said(tiles_selected()));
    c[14] = -1;
    printf(" %d", small(3, 5, 4, a, 4, b, 5, c, 5)), printf(" %g", c[14]), c[14] = -1;
    printf(" %d", small(3, 5, 3, a, 4, b, 5, c, 5)), printf(" %g", c[14]), c[14] = -1;
    printf(" %d", open_rows(3, 5, 4, a, 4, b, 5, c, 5)), printf(" %g", c[14]), c[14] = -1;
    int64_t bytes = packs_packed_b_bytes(4, 5);
    int status = bytes <= (int64_t)sizeof packed ? packs_pack_b(4, 5, b, 5, packed) : 9;
    printf(" %d %d %d", bytes > 0, status, packs(3, 5, 4, a, 4, packed, 0, c, 5)), printf(" %g", c[14]), c[14] = -1;
    int64_t shape[] = {3, 4}, shape_b[] = {4, 5}, shape_bias[] = {5}, shape_c[] = {3, 5};
    DLDataType f32 = {2, 32, 1};
    DLDevice cpu = {1, 0};
    DLTensor ta = {a, cpu, 2, f32, shape, 0, 0}, tb = {b, cpu, 2, f32, shape_b, 0, 0};
    DLTensor tbias = {bias, cpu, 1, f32, shape_bias, 0, 0}, tc = {c, cpu, 2, f32, shape_c, 0, 0};
    printf(" %d", fused(&ta, &tb, &tbias, &tc)), printf(" %g", c[14]);
    float sums[256] = {-1};
    printf(" %d", tiles(16, 16, 32, h, 32, h, 16, sums, 16)), printf(" %g\\n", sums[255]);
  }
  return 0;
}
"""
RIGHT = ": 0 38 1 -1 0 38 1 0 0 38 0 0 0 32"
REFUSED = ": 6 -1 6 -1 6 -1 0 6 6 -1 6 -1 6 0"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a library, with a program that was linked with each of its forms."""
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "cache"))
        made = tw.library(KERNELS, targets=LEVELS, name="mine", out=folder / "out")
    assert (made.folder, made.name) == (folder / "out", "mine")
    assert {path.name for path in made.folder.iterdir()} == set(made.files)
    return made


@pytest.fixture(scope="module", params=["static", "shared", "musl"])
def program(request, built, tmp_path_factory):
    """The program's path."""
    compiler = MUSL if request.param == "musl" else CC
    if compiler is None:
        pytest.skip("no musl-gcc: install musl-tools" if request.param == "musl" else "no C compiler")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "main.c").write_text(PROGRAM)
    out = built.folder
    linked = [f"-L{out}", "-lmine", f"-Wl,-rpath,{out}"] if request.param == "shared" else [out / "libmine.a"]
    options = ["-std=c11", "-Wall", "-Werror", f"-I{out}", *["-static"] * (request.param == "musl")]
    run(compiler, *options, folder / "main.c", *linked, "-lm", "-o", folder / "main")
    return folder / "main"


def run(*command, **variables: str):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=variables or None)
    assert done.returncode == 0, f"{done.returncode} {done.stderr}"
    return done.stdout


def best(features: frozenset[str]) -> str:
    """The best level of the library on a machine with these features."""
    return next(each for each in reversed(LEVELS) if tw.targets.get(each).features <= features)


def test_every_level_of_this_machine_computes(program):
    lines = run(program, *LEVELS, "x86-64-v4", "no_such_level", "").splitlines()
    machine = best(HERE)
    assert lines[0] == f"{machine} {machine} {machine}{RIGHT}"
    for level, line in zip(LEVELS, lines[1:], strict=False):
        found = best(HERE & tw.targets.get(level).features)
        assert line == f"0 {found} {found} {found}{RIGHT}"
    # A level without code of its own caps too; an unknown one changes nothing.
    found = best(HERE & tw.targets.get("x86-64-v4").features)
    assert lines[-3:-1] == [f"0 {found} {found} {found}{RIGHT}", f"7 {found} {found} {found}{RIGHT}"]
    assert lines[-1] == f"0 {machine} {machine} {machine}{RIGHT}"


@pytest.mark.skipif(QEMU is None, reason="no emulator of x86-64")
@pytest.mark.parametrize(
    ("processor", "level"),
    [("qemu64", "x86-64"), ("Nehalem", "x86-64-v2"), ("Haswell", "x86-64-v3"), ("max", "x86-64-v3")],
)
def test_other_processors_get_the_best_code_that_they_run(program, processor, level):
    assert run(QEMU, "-cpu", processor, program) == f"{level} {level} {level}{RIGHT}\n"


def test_the_environment_caps_and_a_name_that_is_unknown_refuses(program):
    assert run(program, TILEWRIGHT_MAX_ISA="x86-64-v2") == f"x86-64-v2 x86-64-v2 x86-64-v2{RIGHT}\n"
    machine = best(HERE)
    assert run(program, TILEWRIGHT_MAX_ISA="") == f"{machine} {machine} {machine}{RIGHT}\n"
    lines = run(program, "x86-64", TILEWRIGHT_MAX_ISA="x86-64v3").splitlines()
    assert lines == [f"none none none{REFUSED}", f"0 x86-64 x86-64 x86-64{RIGHT}"]


@pytest.mark.skipif(QEMU is None, reason="no emulator of x86-64")
@needs_c
def test_a_processor_without_fitting_code_is_refused_not_killed(tmp_path):
    tw.library({"small": KERNELS["small"]}, targets=["x86-64-v3"], name="high", out=tmp_path)
    (tmp_path / "main.c").write_text("""
        #include "high.h"
        int main(void) { return small(3, 5, 4, 0, 4, 0, 5, 0, 5) + (high_selected() || small_selected() ? 100 : 0); }
    """)
    run(CC, f"-I{tmp_path}", tmp_path / "main.c", tmp_path / "libhigh.a", "-o", tmp_path / "main")
    done = subprocess.run([str(QEMU), "-cpu", "Nehalem", str(tmp_path / "main")], check=False)
    assert done.returncode == 6


def test_nothing_but_the_interface_is_seen(built):
    nm = shutil.which("nm") or shutil.which("llvm-nm-22")
    if nm is None:
        pytest.skip("no nm")
    listed = [line.split() for line in run(nm, "-D", built.folder / "libmine.so").splitlines()]
    defined = {each[-1].split("@")[0] for each in listed if not {"U", "w"} & {*each}}
    needed = {each[-1].split("@")[0] for each in listed if "U" in each}
    entries = {*KERNELS, *(f"{each}_selected" for each in KERNELS), "packs_pack_b", "packs_packed_b_bytes"}
    entries |= {f"__tvm_ffi_{each}" for each in KERNELS if each != "packs"}
    assert defined == entries | {"fused_tensors", "mine_isa", "mine_selected", "mine_contents"}
    assert needed <= {"aligned_alloc", "malloc", "free", "getenv", "strcmp", "memset", "memcpy"}
    assert all(each.split("@")[1:] for each in run(nm, "-D", built.folder / "libmine.so").split() if "small" in each)


@needs_c
def test_two_libraries_are_in_one_program(built, tmp_path):
    tw.library({"other_small": KERNELS["small"]}, targets=LEVELS[:2], name="other", out=tmp_path)
    (tmp_path / "main.c").write_text("""
        #include "mine.h"
        #include "other.h"
        #include "mine.h"
        int main(void) {
          float a[12] = {1}, b[20] = {1}, c[15];
          return small(3, 5, 4, a, 4, b, 5, c, 5) + other_small(3, 5, 4, a, 4, b, 5, c, 5);
        }
    """)
    libraries = [tmp_path / "libother.a", built.folder / "libmine.a"]
    run(
        CC,
        "-Wall",
        "-Werror",
        f"-I{tmp_path}",
        f"-I{built.folder}",
        tmp_path / "main.c",
        *libraries,
        "-o",
        tmp_path / "main",
    )
    run(tmp_path / "main")


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_cplusplus_has_typed_functions_and_finds_the_kernel(built, tmp_path):
    (tmp_path / "main.cc").write_text("""
        #include "mine.h"
        #include <cstdio>
        int main() {
          float a[12] = {}, b[20] = {}, c[15];
          for (auto &each : a) each = 2;
          for (auto &each : b) each = 3;
          std::printf("%d ", mine::small(3, 5, 4, a, 4, b, 5, c, 5)), std::printf("%g ", c[14]), c[14] = 0;
          std::printf("%d ", mine::matmul(3, 5, 4, a, 4, b, 5, c, 5)), std::printf("%g ", c[14]), c[14] = 0;
          std::printf("%d ", mine::matmul(2, 5, 4, a, 4, b, 5, c, 5)), std::printf("%g ", c[9]);
          std::printf("%d ", mine::matmul(3, 6, 4, a, 4, b, 5, c, 5));
          std::printf("%d ", mine::matmul(2, 5, 65, a, 4, b, 5, c, 5));
          mine::bf16 h[512] = {};
          float sums[256];
          std::printf("%d\\n", mine::matmul(16, 16, 32, h, 32, h, 16, sums, 16));
        }
    """)
    command = [CXX, "-std=c++17", "-Wall", "-Werror", f"-I{built.folder}", tmp_path / "main.cc"]
    run(*command, built.folder / "libmine.a", "-lm", "-o", tmp_path / "main")
    assert run(tmp_path / "main") == "0 24 0 24 0 24 1 1 0\n"
    (tmp_path / "main.cc").write_text(
        '#include "mine.h"\nint main() { double a[1]; return mine::small(1, 1, 1, a, 1, a, 1, a, 1); }'
    )
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "double" in done.stderr


@pytest.mark.skipif(CMAKE is None or CC is None, reason="no CMake, or no C compiler")
@pytest.mark.parametrize("form", ["mine", "mine_static"])
def test_cmake_finds_it(built, tmp_path, form):
    (tmp_path / "main.c").write_text(
        '#include "mine.h"\nint main(void) { return small(0, 0, 0, 0, 0, 0, 0, 0, 0) - 1; }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.16)
        project(use C)
        find_package(mine REQUIRED)
        add_executable(main main.c)
        target_link_libraries(main mine::{form})
    """)
    run(CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-Dmine_DIR={built.folder}")
    run(CMAKE, "--build", tmp_path / "build")
    run(tmp_path / "build" / "main")


@pytest.mark.skipif(PKG_CONFIG is None or CC is None, reason="no pkg-config, or no C compiler")
def test_pkg_config_finds_it(built, tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_CONFIG_PATH", str(built.folder))
    (tmp_path / "main.c").write_text(
        '#include "mine.h"\nint main(void) { return small(0, 0, 0, 0, 0, 0, 0, 0, 0) - 1; }\n'
    )
    flags = subprocess.run([str(PKG_CONFIG), "--cflags", "--libs", "mine"], capture_output=True, text=True, check=True)
    run(CC, tmp_path / "main.c", *flags.stdout.split(), f"-Wl,-rpath,{built.folder}", "-o", tmp_path / "main")
    run(tmp_path / "main")


def test_the_page_lists_the_contents(built):
    page = (built.folder / "mine.md").read_text()
    for name, spec in KERNELS.items():
        assert f"| `{name}` | {spec} |" in page
    assert "| sapphirerapids | x86-64-v3 | x86-64-v2 | x86-64 |" in page


def test_equal_code_is_there_once(built):
    symbols = {key: symbol for key, (_, symbol) in built.contents.sizes.items()}
    assert len(symbols) == len(KERNELS) * len(LEVELS)
    one = built.contents.sizes["fused", "x86-64"][1]
    data = (built.folder / "libmine.a").read_bytes()
    assert data.count(f"{one}.o/\n".encode()) == 1
    assert len(set(symbols.values())) < len(symbols)


def test_equal_requests_make_equal_files(built, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    kernels = {"small": KERNELS["small"], "fused": KERNELS["fused"]}
    one = tw.library(kernels, targets=LEVELS[1:3], name="same", out=tmp_path / "one", jobs=1)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "another"))
    two = tw.library(kernels, targets=LEVELS[1:3], name="same", out=tmp_path / "two", jobs=2)
    assert one.files == two.files
    for each in one.files:
        assert (one.folder / each).read_bytes() == (two.folder / each).read_bytes(), each


def test_the_shell_reads_a_list(tmp_path, capsys):
    (tmp_path / "my-list.toml").write_text("""
        targets = ["x86-64"]
        threads = 1
        [kernels.whole]
        shape = "?1..8x5x4"
        dtype = "u8,i8,i32"
        [kernels.fused]
        m = 3
        n = 5
        k = "?"
        a = "f32"
        epilogue = "bias:n,relu"
        batch = [2, "?"]
        b_batch = []
    """)
    assert (
        main(["library", str(tmp_path / "my-list.toml"), "-o", str(tmp_path / "out"), "--targets", "x86-64,x86-64-v2"])
        == 0
    )
    assert "2 kernels for x86-64-v2, x86-64;" in capsys.readouterr().out
    page = (tmp_path / "out" / "my_list.md").read_text()
    assert str(tw.MatmulSpec(m=tw.Dim(min=1, max=8), n=5, k=4, a="u8", b="i8", c="i32")) in page
    assert "2x?*3x5x? f32 nn" in page
    function = ctypes.CDLL(str(tmp_path / "out" / "libmy_list.so")).whole
    a, b, c = np.ones((2, 4), np.uint8), np.full((4, 5), -2, np.int8), np.zeros((2, 5), np.int32)
    operands = [(ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1])) for x in (a, b, c)]
    assert function(*map(ctypes.c_int64, (2, 5, 4)), *(each for pair in operands for each in pair)) == 0
    assert (c == -8).all()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[kernels", "expected a file in TOML"),
        ("kernels = 3", r"kernels is no table of tables; expected tables \[kernels.NAME\]"),
        ("size = 3", "unknown 'size'; expected one of name, targets"),
        ("threads = true", "threads is True; expected an integer"),
        ("", "no kernels; expected one or more"),
        ("[kernels.a]\nm = 3\nn = 3\nz = 3", "l.toml: a: unknown field 'z'; expected one of a, a_batch"),
        ("[kernels.a]\nshape = '3x3'", "l.toml: a: the shape is none"),
        ("[kernels.a]\nm = -3\nn = 3\nk = 3", "l.toml: a: m is -3"),
        ("[kernels.a]\nshape = '3x3x3'\nepilogue = 'shine'", "l.toml: a: no entry 'shine'"),
        ("[kernels.a]\noperator = 'sort'", "l.toml: a: operator 'sort'; expected one of conv2d, attention"),
        ("[kernels.a]\noperator = 'conv2d'\nn = 3", "l.toml: a: .*missing"),
        ("[kernels.a]\nmodule = 'a.mlir'\nm = 3", "l.toml: a: more than a module's file"),
        ("[kernels.a]\nmodule = 'absent.mlir'", "absent.mlir: cannot read it"),
        ("[kernels.int]\nshape = '3x3x3'", "'int' is no name of an entry"),
        ("[kernels.l]\nshape = '3x3x3'", "the kernel l; expected another name than l, which is that of the library"),
        ("[kernels.l_isa]\nshape = '3x3x3'", "another name than l_isa, which is that of a function of the library"),
        (
            "[kernels.a]\nshape = '3x3x3'\n[kernels.a_selected]\nshape = '3x3x3'",
            "another name than a_selected, which is that of an entry of the kernel a",
        ),
    ],
)
def test_a_wrong_list_is_said_and_nothing_is_written(tmp_path, text, what):
    from tilewright.libraries import lists

    file = tmp_path / "l.toml"
    file.write_text(text)

    def make() -> None:
        found = lists.read(file)
        tw.library(found.kernels, **{"out": tmp_path / "out", "targets": ["x86-64"], **found.options})

    with pytest.raises(TilewrightError, match=what):
        make()
    assert not (tmp_path / "out").exists()


def test_wrong_targets_and_kernels_are_said(tmp_path):
    spec = KERNELS["small"]
    for targets, error, what in (
        ([], SpecError, "targets are "),
        ("host", SpecError, "targets are 'host'; expected a list"),
        (["sm_80"], TargetError, "is a GPU"),
        (["x86-64", "x86-64"], TargetError, "x86-64 is there twice"),
        (["no_such"], TargetError, "no_such"),
    ):
        with pytest.raises(error, match=what):
            tw.library({"a": spec}, targets=targets, out=tmp_path / "out")
    with pytest.raises(SpecError, match="a: is a str; expected a MatmulSpec"):
        tw.library({"a": "384x1024"}, out=tmp_path / "out")  # pyright: ignore[reportArgumentType]
    with pytest.raises(SpecError, match="'a b' is no name"):
        tw.library({"a": spec}, name="a b", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_factors_that_calls_tell_are_pointers(tmp_path):
    spec = tw.MatmulSpec(m=3, n=5, k=4, alpha="arg", beta="arg")
    tw.library({"scaled": spec}, targets=["x86-64", "x86-64-v3"], name="factors", out=tmp_path)
    header = (tmp_path / "factors.h").read_text()
    assert "int64_t ldc, const float *alpha, const float *beta);" in header
    loaded = ctypes.CDLL(str(tmp_path / "libfactors.so"))
    a, b, c = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.full((3, 5), 10, np.float32)
    operands = [each for x in (a, b, c) for each in (ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1]))]
    factors = [ctypes.byref(ctypes.c_float(each)) for each in (0.5, 3)]
    assert loaded.scaled(*map(ctypes.c_int64, (3, 5, 4)), *operands, *factors) == 0
    assert (c == 32).all()


def test_an_archive_is_one_that_ar_reads(tmp_path):
    ar = shutil.which("ar") or shutil.which("llvm-ar-22")
    if ar is None:
        pytest.skip("no ar")
    members = {"short.o": b"odd", "a_very_long_name_of_a_member.o": b"even"}
    (tmp_path / "x.a").write_bytes(archive(members, dict.fromkeys(members, ("f",))))
    assert run(ar, "t", tmp_path / "x.a").split() == list(members)
    for name, data in members.items():
        assert run(ar, "p", tmp_path / "x.a", name).encode() == data


def test_a_library_imports_nothing_of_ours_when_it_runs(built):
    program = f"""
        import ctypes
        ctypes.CDLL({str(built.folder / "libmine.so")!r})
        maps = open("/proc/self/maps").read()
        assert not any(each in maps for each in ("LLVM", "MLIR", "libomp"))
        print("alone")
    """
    assert in_new_process(program) == "alone\n"
    assert isinstance(built.folder, Path)
