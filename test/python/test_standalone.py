# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries called from Python without the compiler: the calls, what is refused, and the package that the wheel has."""

from __future__ import annotations

import gc
import pickle
import shutil
import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from dlpack_arrays import CUDA, Foreign, Library
from processes import in_new_process
from tilewright import standalone
from tilewright.errors import NotRunnableError, OperandError, TargetError, TilewrightError

sys.path.append(str(Path(__file__).parents[2] / "tools" / "setup"))
import runtime_wheel

pytestmark = pytest.mark.skipif(
    (shutil.which("ld.lld-22") or shutil.which("ld.lld")) is None, reason="no linker of libraries"
)

TARGETS = ("x86-64", "x86-64-v3")
KERNELS = {
    "small": tw.MatmulSpec(m=3, n=5, k=4),
    "turned": tw.MatmulSpec(m=3, n=5, k=4, layout="tt"),
    "open_rows": tw.MatmulSpec(m=None, n=5, k=tw.Dim(min=1, max=64)),
    "halves": tw.MatmulSpec(m=3, n=5, k=4, a="bf16"),
    "packs": tw.MatmulSpec(m=3, n=5, k=4, b_packed=True),
    "fused": tw.MatmulSpec(m=3, n=5, k=4, epilogue=(tw.bias("n"), tw.relu())),
    "scaled": tw.MatmulSpec(m=3, n=5, k=4, alpha="arg", beta="arg"),
    "batch": tw.MatmulSpec(m=3, n=5, k=4, batch=(None,), b_batch=()),
    "conv": tw.Conv2dSpec(n=1, h=4, w=4, ic=2, oc=3, kh=3, kw=3),
    "isa": tw.MatmulSpec(m=3, n=5, k=4, beta=1),
}
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a library."""
    made = tmp_path_factory.mktemp("standalone")
    tw.library(KERNELS, targets=TARGETS, name="mine", out=made)
    return made


@pytest.fixture
def library(folder):
    return standalone.load(folder / "libmine.so")


def test_kernels_compute(library):
    product = A @ B
    assert np.array_equal(library.small(A, B), product)
    out = np.empty((3, 5), np.float32)
    assert library.small(b=B, a=A, out=out) is out
    assert np.array_equal(out, product)
    assert np.array_equal(library.turned(A.T.copy(), B.T.copy()), product)
    assert np.array_equal(library.open_rows(A[:2, :3], B[:3]), A[:2, :3] @ B[:3])
    assert np.array_equal(library.halves(A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)), product)
    bias = np.full(5, -100, np.float32)
    assert np.array_equal(library.fused(A, B, bias), np.maximum(product - 100, 0))
    assert np.array_equal(library.scaled(A, B, 0.5, 2, out=np.ones((3, 5), np.float32)), product / 2 + 2)
    assert np.array_equal(library.batch(np.stack([A, -A]), B), np.stack([product, -product]))
    x, w = np.ones((1, 4, 4, 2), np.float32), np.full((3, 3, 2, 3), 2, np.float32)
    assert (library.conv(x, w) == 36).all()
    assert np.array_equal(library["isa"](A, B, out=np.ones((3, 5), np.float32)), product + 1)


def test_arrays_of_other_libraries_are_taken_in_place(library):
    result = library.small(Library(A), Foreign(B))
    assert type(result) is Library
    assert np.array_equal(result.array, A @ B)
    out = np.zeros((3, 5), np.float32)
    library.fused(Foreign(A), B, Foreign(np.zeros(5, np.float32)), out=out)
    assert np.array_equal(out, A @ B)
    assert np.array_equal(library.packs(A, library.packs.pack_b(Foreign(B))), A @ B)
    with pytest.raises(OperandError, match="operand a: "):
        library.small(Foreign(A, device=CUDA), B)


def test_b_comes_packed(library):
    packed = library.packs.pack_b(B)
    assert np.array_equal(library.packs(A, packed), A @ B)
    assert np.array_equal(library.packs(A, pickle.loads(pickle.dumps(packed))), A @ B)
    other = tw.compile(tw.MatmulSpec(m=3, n=6, k=4, b_packed=True)).pack_b(np.ones((4, 6), np.float32))
    with pytest.raises(OperandError, match=r"packed in another format: .*; expected what this kernel packed"):
        library.packs(A, other)
    with pytest.raises(OperandError, match=r"operand b: ndarray is not packed; expected"):
        library.packs(A, B)
    with pytest.raises(TilewrightError, match="takes b as it is; expected one of none"):
        library.small.pack_b(B)


def test_the_library_says_what_it_has(library):
    assert list(library) == list(KERNELS)
    assert (library.name, library.version, library.targets) == ("mine", tw.__version__, TARGETS[::-1])
    assert library.signatures["small"] == "small(a: 3x4 f32, b: 4x5 f32) -> 3x5 f32"
    assert library.open_rows.signature == "open_rows(a: mx?1..64 f32, b: ?1..64x5 f32) -> mx5 f32"
    assert library.packs.signature == "packs(a: 3x4 f32, b: packed) -> 3x5 f32"
    assert library.conv.signature == "conv(x: 1x4x4x2 f32, w: 3x3x2x3 f32) -> 1x2x2x3 f32"
    assert repr(library) == "<tilewright_runtime.Library mine: 10 kernels for x86-64-v3, x86-64>"
    assert library.small.prototype.startswith("int32_t small(int64_t m, ")
    assert library.small is library["small"]
    assert {"small", "isa", "selected"} <= set(dir(library))
    with pytest.raises(AttributeError, match="no kernel 'large'; it has small, turned"):
        _ = library.large
    with pytest.raises(KeyError):
        _ = library["large"]
    for each in (library, library.small):
        with pytest.raises(TilewrightError, match="cannot be pickled"):
            pickle.dumps(each)


def test_instructions_can_be_capped(library, tmp_path):
    library.isa("x86-64-v2")
    assert (library.selected(), library.small.selected()) == ("x86-64", "x86-64")
    assert np.array_equal(library.small(A, B), A @ B)
    library.isa(None)
    with pytest.raises(
        TargetError, match=r"mine.isa: no target is called 'x86-64v3'; expected one of x86-64-v3, x86-64"
    ):
        library.isa("x86-64v3")
    tw.library({"only": KERNELS["small"], "packs": KERNELS["packs"]}, targets=TARGETS[1:], name="high", out=tmp_path)
    high = standalone.load(tmp_path / "libhigh.so")
    high.isa("x86-64")
    assert high.selected() is None
    assert high.only.selected() is None
    with pytest.raises(NotRunnableError, match="kernel entry only: no code of the kernel fits this processor"):
        high.only(A, B)
    with pytest.raises(NotRunnableError, match="kernel entry packs: no code of the kernel fits this processor"):
        high.packs.pack_b(B)


@pytest.mark.parametrize(
    ("operands", "out"),
    [
        ((A.tolist(), B), None),
        ((A.astype("f8"), B), None),
        ((A, B.T), None),
        ((A[::-1], B), None),
        ((np.zeros(49, "u1")[1:].view("f4").reshape(3, 4), B), None),
        ((A, B), np.zeros((5, 3), np.float32).T),
        ((A, B), np.broadcast_to(np.float32(0), (3, 5))),
        ((A[:, :3], B), None),
    ],
)
def test_operands_are_refused_as_the_compiler_does(library, operands, out):
    errors = []
    for kernel in (library.small, tw.compile(KERNELS["small"])):
        with pytest.raises(OperandError) as caught:
            kernel(*operands, out=out)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    whole = np.zeros((4, 9), np.float32)
    with pytest.raises(OperandError, match="operand out: it overlaps operand b"):
        library.small(A, whole[:, :5], out=whole[:3, 4:])


def test_a_file_that_is_no_library_is_refused(folder, tmp_path):
    whole = (folder / "libmine.so").read_bytes()
    machine = struct.unpack_from("<H", whole, 18)[0]
    for data, what in (
        (b"", "it is no ELF file"),
        (b"!<arch>\n" + bytes(100), "it is no ELF file"),
        (whole[:60], "it is no ELF file"),
        (whole[:-1], f"{len(whole) - 1} bytes; expected {len(whole)}"),
        (whole[: len(whole) // 2], "bytes; expected"),
        (whole[:100], "bytes; expected"),
        (whole[:16] + b"\1\0" + whole[18:], "it is no shared library of 64 bits"),
        (whole[:18] + b"\x28\0" + whole[20:], f"another architecture .*; expected machine {machine}"),
        (whole.replace(b'{"format":1', b'{"format":2'), "made it in another format; expected format 1"),
        (whole.replace(b'{"format":1', b'{"fOrmat":1'), "it does not say what it has"),
        (whole.replace(b"mine_contents", b"nine_contents"), "it does not say what it has"),
    ):
        (tmp_path / "lib.so").write_bytes(data)
        with pytest.raises(TilewrightError, match=what):
            standalone.load(tmp_path / "lib.so")
        (tmp_path / "lib.so").unlink()
    with pytest.raises(TilewrightError, match=r"absent\.so: cannot read it: No such file"):
        standalone.load(tmp_path / "absent.so")


def test_another_library_in_the_place_of_a_loaded_one_is_refused(tmp_path):
    def build(rows: int) -> Path:
        tw.library({"only": tw.MatmulSpec(m=rows, n=5, k=4)}, targets=TARGETS[:1], name="place", out=tmp_path)
        return tmp_path / "libplace.so"

    kernel = standalone.load(build(3)).only
    path = build(2)
    gc.collect()
    with pytest.raises(TilewrightError, match="another library that came from this file is still loaded"):
        standalone.load(path)
    assert np.array_equal(kernel(A, B), A @ B)
    del kernel
    gc.collect()
    assert np.array_equal(standalone.load(path).only(A[:2], B), A[:2] @ B)


USE = """
import sys, warnings
warnings.simplefilter("error")
sys.path.insert(0, {packages!r})
{before}
import numpy as np
import tilewright_runtime as runtime

library = runtime.load({file!r})
a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
assert (library.small(a, b) == 4).all()
try:
    library.small(b, a)
except runtime.OperandError as error:
    print(type(error).__module__, error)
{after}
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the package as the wheel has it."""
    made = tmp_path_factory.mktemp("packages")
    runtime_wheel.package(made)
    return made


def test_the_package_needs_no_compiler_and_no_types(folder, packages):
    text = USE.format(
        packages=str(packages),
        file=str(folder / "libmine.so"),
        before="sys.modules['ml_dtypes'] = sys.modules['tilewright'] = None",
        after="""
maps = open("/proc/self/maps").read()
assert not any(each in maps for each in ("LLVM", "MLIR", "libomp", "tilewright/"))
try:
    library.halves
except runtime.TilewrightError as error:
    print(error)
""",
    )
    assert in_new_process(text).splitlines() == [
        "tilewright_runtime.errors operand a: shape (4, 5); expected (3, 4). Compile a kernel for these extents",
        "elements are of type bfloat16, which numpy does not have; expected the package ml_dtypes. Install ml_dtypes",
    ]


def test_the_package_is_beside_the_compiler_in_one_process(folder, packages):
    text = USE.format(
        packages=str(packages),
        file=str(folder / "libmine.so"),
        before="import tilewright\nfrom tilewright import standalone",
        after=f"""
try:
    standalone.load({str(folder / "libmine.so")!r}).small(b, a)
except tilewright.OperandError as error:
    print(type(error).__module__)
""",
    )
    lines = in_new_process(text).splitlines()
    assert [line.split()[0] for line in lines] == ["tilewright_runtime.errors", "tilewright.standalone.errors"]
