# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries of a largest size: products that share code, what that saves and what it loses."""

import ctypes
import json
import shutil

import numpy as np
import pytest
import tilewright as tw
from tilewright.bench import regret
from tilewright.cli import main
from tilewright.errors import SpecError, TargetError
from tilewright.libraries import budget
from tilewright.libraries.packages import Contents

LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
TARGETS = ["x86-64", "x86-64-v2"]
ROWS = (9, 10, 11, 12, 13, 14)
KERNELS = {f"rows{m}": tw.MatmulSpec(m=m, n=33, k=17) for m in ROWS} | {
    "alone": tw.MatmulSpec(m=4, n=8, k=8),
    "packs": tw.MatmulSpec(m=4, n=8, k=8, b_packed=True),
    "fused": tw.MatmulSpec(m=4, n=8, k=8, epilogue=(tw.bias("n"),)),
}


@pytest.fixture(autouse=True)
def times(monkeypatch, tmp_path_factory):
    """Times that are known: rows of a greater number lose more by sharing, and any extents more than any rows."""

    def known(spec, others, target):
        assert target.name == "x86-64-v2"
        return (1.0, *(1 + 10.0 ** (spec.m - 20) * (number + 1) for number in range(len(others))))

    monkeypatch.setattr(budget, "_times", known)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "size-cache"))


def library(out, **options):
    return tw.library(KERNELS, targets=TARGETS, name="sized", out=out, **options)


def test_products_share_code_until_it_fits(tmp_path):
    whole = library(tmp_path / "whole")
    most = (whole.folder / "libsized.so").stat().st_size
    assert whole.contents.curve == ()
    assert library(tmp_path / "fits", max_size=most).contents.shares == {}
    made = library(tmp_path / "less", max_size=most - 1000)
    assert (made.folder / "libsized.so").stat().st_size <= most - 1000
    shares = made.contents.shares
    assert 0 < len(shares) <= len(ROWS)
    # Those of least loss for their bytes share; what differs from all others in more than its rows does not.
    assert {"rows9", "rows10"} <= set(shares) <= {f"rows{m}" for m in ROWS}
    assert set(shares.values()) == {tw.MatmulSpec(m=None, n=33, k=17)}
    points = made.contents.curve
    assert [each.bytes for each in points] == sorted((each.bytes for each in points), reverse=True)
    assert [each.regret for each in points] == sorted(each.regret for each in points)
    assert "(this library)" in (made.folder / "sized.md").read_text()


def test_what_shares_code_computes_and_refuses_as_before(tmp_path):
    whole = library(tmp_path / "whole")
    most = (whole.folder / "libsized.so").stat().st_size
    made = library(tmp_path / "less", max_size=f"{(most - 1000) // 1024}K")
    assert "rows9" in made.contents.shares
    loaded = ctypes.CDLL(str(made.folder / "libsized.so"))
    a, b = np.arange(14 * 17, dtype=np.float32).reshape(14, 17) % 7, np.ones((17, 33), np.float32)

    def call(name, m, n=33, k=17):
        c = np.full((14, 33), -1, np.float32)
        operands = [(ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1])) for x in (a, b, c)]
        status = getattr(loaded, name)(*map(ctypes.c_int64, (m, n, k)), *(each for pair in operands for each in pair))
        return status, c

    for m in ROWS:
        status, c = call(f"rows{m}", m)
        assert status == 0
        assert (c[:m] == a[:m] @ b).all()
        assert (c[m:] == -1).all()
        for extents in ((m - 1, 33, 17), (m, 32, 17), (m, 33, 16)):
            status, c = call(f"rows{m}", *extents)
            assert status == 1
            assert (c == -1).all()


def test_what_a_program_calls_most_keeps_its_code(tmp_path):
    whole = library(tmp_path / "whole")
    most = (whole.folder / "libsized.so").stat().st_size - 1000
    calls = dict.fromkeys(KERNELS, 1) | {"rows9": 10**6}
    shares = library(tmp_path / "less", max_size=most, calls=calls).contents.shares
    assert shares
    assert "rows9" not in shares


def test_what_cannot_be_made_so_small_is_said(tmp_path):
    with pytest.raises(SpecError, match=r"max_size is 1000; expected \d+ or more, which is what these kernels take"):
        library(tmp_path / "out", max_size=1000)
    for wrong in ("256 KB", 0, -3, True, 2.5):
        with pytest.raises(SpecError, match=r'max_size is .*; expected bytes above zero, or a text such as "256K"'):
            library(tmp_path / "out", max_size=wrong)
    with pytest.raises(TargetError, match="this machine runs none of the targets, and cannot measure"):
        tw.library({"a": KERNELS["alone"]}, targets=["rv64gcv"], out=tmp_path / "out", max_size="1M")
    assert not (tmp_path / "out").exists()


def test_the_shell_prints_the_curve(tmp_path, capsys):
    lines = [f"[kernels.rows{m}]\nshape = '{m}x33x17'\n" for m in ROWS]
    (tmp_path / "l.toml").write_text(f"targets = {TARGETS}\nmax_size = '1M'\n{''.join(lines)}")
    assert main(["library", str(tmp_path / "l.toml"), "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].endswith("0.0 % more time, 0 products share code (this library)")
    assert printed[-1].endswith(f"{len(ROWS)} products share code")
    assert main(["library", str(tmp_path / "l.toml"), "-o", str(tmp_path / "out"), "--max-size", "1K"]) == 2
    assert "max_size is 1024" in capsys.readouterr().err


def test_both_codes_are_timed(monkeypatch):
    monkeypatch.undo()
    spec = KERNELS["alone"]
    found = budget._times(
        spec, [form[name] for form in budget.forms({"a": spec}) for name in form], tw.targets.resolve("host")
    )
    assert len(found) == 2
    assert all(0 < each < 1 for each in found)


def test_the_curve_is_drawn(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    point = budget.Point(3000, 0.0, {})
    contents = Contents(
        "sized", [], {}, {}, {}, openmp=False, curve=[point, budget.Point(2000, 0.1, {"a": KERNELS["alone"]})]
    )
    regret.draw(contents, tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text()
    assert "<svg" in drawn
    assert "<!-- this library -->" in drawn
    (tmp_path / "whole.toml").write_text("targets = ['x86-64-v2']\n[kernels.one]\nshape = '4x8x8'\n")
    command = ["library", str(tmp_path / "whole.toml"), "-o", str(tmp_path / "out"), "--plot"]
    assert main([*command, str(tmp_path / "none.svg")]) == 2
    assert "whole has no largest size; expected choices to draw" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "absent" / "curve.svg")]) == 2
    assert not (tmp_path / "none.svg").exists()


def test_the_size_of_a_library_and_its_calls_are_measured(tmp_path, capsys):
    file = tmp_path / "measured.json"
    shapes = ["--shape", "2x3x4", "--shape", "9x9x9"]
    effort = ["--targets", ",".join(TARGETS), "--rounds", "3", "--sample-ms", "0.1", "--json", str(file)]
    assert main(["bench", "library", *shapes, "--dtype", "f32", *effort]) == 0
    assert "2 kernels of f32 for x86-64-v2, x86-64: a shared library of " in capsys.readouterr().out
    (found,) = json.loads(file.read_text())
    made = tw.library([tw.MatmulSpec(2, 3, 4), tw.MatmulSpec(9, 9, 9)], TARGETS, out=tmp_path / "again")
    objects = {symbol: size for size, symbol in made.contents.sizes.values()}
    assert (found["objects"], found["code_bytes"]) == (len(objects), sum(objects.values()))
    assert found["shared_bytes"] > found["code_bytes"]
    assert found["level"] == "x86-64-v2"
    assert min(found["direct_ns"], found["library_ns"]) > 0
    assert main(["bench", "library", "--targets", "armv8-a", "--shape", "2x3x4"]) == 2
    assert "this machine runs none of the targets" in capsys.readouterr().err
