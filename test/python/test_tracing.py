# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces of what a program calls, and libraries for that program."""

import json
import shutil

import pytest
import tilewright as tw
from processes import in_new_process, new_process
from tilewright.cli import main
from tilewright.errors import SpecError, TilewrightError
from tilewright.libraries import traces
from tilewright.payload import spec_tables

LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
PROGRAM = """
    import os
    import numpy as np
    import tilewright as tw

    rows, product = np.ones((8, 5), np.float32), np.ones((5, 9), np.float32)
    kernel = tw.compile(tw.MatmulSpec(8, 9, None))
    for _ in range(3):
        kernel(rows, b=product)
    kernel(rows[:, :4], product[:4])
    tw.conv2d(np.ones((1, 6, 6, 3), np.float32), np.ones((3, 3, 3, 4), np.float32))
    doubled = tw.compile(tw.MatmulSpec(8, 9, 5, epilogue=(lambda x: x * 2,)))
    print(doubled(rows, product)[0, 0], kernel)
    if os.fork() == 0:
        kernel(rows, product)
        raise SystemExit
    os.wait()
"""


GROUPS = (
    tw.dequantize("gn", 0, 128),
    tw.dequantize("gn", "u8", 32),
    tw.dequantize("gn", 8, 32, "bf16"),
    tw.dequantize("gn", 0, 32, scale_type="f8E8M0FNU"),
)


@pytest.mark.parametrize("entry", GROUPS, ids=str)
def test_weights_in_groups_have_a_table(entry):
    """So that they are traced, tuned and recorded."""
    spec = tw.MatmulSpec(1, 64, 256, a="bf16", b="u4", c="f32", prologue_b=(entry,))
    table = spec_tables.table(spec)
    assert table is not None
    assert spec_tables.read(json.loads(json.dumps(table)), "test") == spec


@pytest.mark.parametrize("entry", [tw.clamp(), tw.clamp(-1), tw.glu("gelu"), tw.quantize(0.1, 3, "u8")], ids=str)
def test_entries_have_a_table(entry):
    spec = tw.MatmulSpec(8, 64, 256, epilogue=(entry,))
    assert spec_tables.read(spec_tables.table(spec) or {}, "test") == spec


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TRACE", str(tmp_path / "calls.json"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "calls.json"


def test_calls_are_counted_by_spec_and_shapes(trace):
    assert in_new_process(PROGRAM).startswith("10.0 <tilewright.Kernel 8x9x? f32 nn for host")
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    counted = [(each["computes"], each["shapes"], each["calls"]) for each in lines]
    assert ("8x9x? f32 nn", [[8, 5], [5, 9]], 3) in counted
    assert ("8x9x? f32 nn", [[8, 5], [5, 9]], 1) in counted  # the child's own, and not its parent's
    assert ("8x9x? f32 nn", [[8, 4], [4, 9]], 1) in counted
    assert len(counted) == 5
    assert [each["computes"] for each in lines if each["spec"] is None] == ["8x9x5 f32 nn [lambda(x)]"]
    found = traces.read(trace)
    assert found.calls[tw.MatmulSpec(8, 9, None)] == 5
    assert list(found.calls) == [tw.MatmulSpec(8, 9, None), tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3)]
    assert found.skipped == ("8x9x5 f32 nn [lambda(x)]",)


@pytest.mark.skipif(LINKER is None, reason="no lld")
def test_the_library_for_a_program(trace, tmp_path, capsys):
    in_new_process(PROGRAM)
    (tmp_path / "list.toml").write_text("[kernels.mine]\nshape = '8x9x?'\n[kernels.matmul_other]\nshape = '3x3x3'\n")
    given = ["--trace", str(trace), "-o", str(tmp_path / "out"), "--targets", "x86-64"]
    assert main(["library", *given]) == 0
    said = capsys.readouterr()
    assert "2 kernels for x86-64;" in said.out
    assert "8x9x5 f32 nn [lambda(x)] is left out" in said.err
    assert "int32_t matmul_8x9xany_f32_nn(" in (tmp_path / "out" / "calls.h").read_text()
    assert main(["library", str(tmp_path / "list.toml"), *given]) == 0
    assert "3 kernels for x86-64;" in capsys.readouterr().out  # What the list has already keeps its name.
    assert "matmul_8x9xany" not in (tmp_path / "out" / "list.h").read_text()


def test_a_file_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TRACE", str(tmp_path / "absent" / "calls.json"))
    done = new_process("import numpy as np, tilewright as tw; tw.matmul(np.ones((2, 2)), np.ones((2, 2)))")
    assert done.returncode == 0
    assert "cannot write the trace" in done.stderr


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("nonsense", "calls.json:1: 'nonsense'; expected a line of JSON"),
        ('{"spec": 3, "calls": 1, "computes": ""}', "expected a line of JSON"),
        ('{"spec": {"m": 1}, "calls": 1}', "expected a line of JSON"),
        ('{"spec": {"m": 1, "z": 1}, "calls": 1, "computes": ""}', "calls.json:1: unknown field 'z'"),
    ],
)
def test_a_wrong_trace_is_said(tmp_path, text, what):
    (tmp_path / "calls.json").write_text(text)
    with pytest.raises(SpecError, match=what):
        traces.read(tmp_path / "calls.json")
    with pytest.raises(TilewrightError, match="cannot read it"):
        traces.read(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "spec",
    [
        tw.MatmulSpec(
            8, 9, None, a="bf16", epilogue=(tw.bias("n"), tw.gelu("tanh"), tw.scale(0.5), tw.clamp(-1.0, 2.0))
        ),
        tw.MatmulSpec(8, 9, tw.Dim(1, 80, 8), batch=(2, None), beta=1, layout="nt"),
        tw.MatmulSpec(8, 9, 7, a="u8", b="i8", deterministic=True, b_packed=True),
        tw.MatmulSpec(8, 9, 7, prologue_a=(tw.gather_rows(100, "i64"),)),
        tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3, stride=2, padding="same", epilogue=(tw.bias("n"),)),
        tw.AttentionSpec(queries=None, keys=7, head=8, heads=2, causal="lower_right", mask="u8"),
    ],
)
def test_specs_are_tables(spec):
    table = spec_tables.table(spec)
    assert table is not None
    assert spec_tables.read(json.loads(json.dumps(table)), "here") == spec


def test_kernels_of_one_name_are_numbered():
    from tilewright.libraries import kernels

    specs = [
        tw.MatmulSpec(3, 3, None),
        tw.MatmulSpec(3, 3, tw.Dim(multiple=8)),
        tw.MatmulSpec(3, 3, tw.Dim(8, 8000, 8)),
    ]
    found = kernels.named([*specs, specs[0]])
    assert list(found.values()) == specs
    found = kernels.called([specs[0]], taken=["matmul_3x3xany_f32_nn"])
    assert list(found) == ["matmul_3x3xany_f32_nn_2"]
