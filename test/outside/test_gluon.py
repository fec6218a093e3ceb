# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's verdicts on kernels in Gluon that are wrong in the ways of ConSan's tests, and on their right forms."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tilewright.bench import environments
from tilewright.runtime import checked_kernels
from tilewright.runtime.launches import Launch

KERNELS = Path(__file__).parent / "gluon_kernels.py"
MAP = ("inout:map:f16[64x128]/64x64/128", "i32=64", "i32=128", "i64=128", "i64=1")
"""The arguments of a tensor descriptor."""
REST = ("inout:f16[64x64]", "i64=0", "i64=0")


@pytest.mark.skipif("TILEWRIGHT_TRITON" not in os.environ, reason="Triton compiles for a minute: make check-outside")
def test_verdicts(tmp_path: Path) -> None:
    python = environments.python(environments.TRITON)
    if python is None:
        pytest.skip("Triton is not installed: tilewright bench setup --peers triton")
    variables = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    subprocess.run([python, "-I", "-W", "ignore", KERNELS, tmp_path], check=True, env=variables)
    files = sorted(tmp_path.glob("*.ptx"))
    disagreeing = {}
    for file in files:
        about = json.loads(file.with_suffix(".json").read_text())
        kernel = checked_kernels.read(file, about["kernel"])
        assert kernel.block is not None
        given = [checked_kernels.argument(each) for each in (*(("f16[64x64]",) if about["pointer"] else MAP), *REST)]
        launch = Launch((1, 1, 1), kernel.block, dynamic_shared=about["shared"])
        # Triton initializes barrier objects without the fence that copies of boxes want.
        findings = checked_kernels.run(kernel, launch, given, range(3), 60.0, ("unfenced",)).findings
        if bool(findings) != about["wrong"]:
            disagreeing[file.stem] = findings
    assert len(files) > 50
    assert not disagreeing
