# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that are one file each with its command in it: `.venv/bin/lit test` after `make setup`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import lit.formats

# lit defines these two before it runs this file.
config = config  # type: ignore[name-defined]  # noqa: F821
lit_config = lit_config  # type: ignore[name-defined]  # noqa: F821

test = Path(__file__).parent
root = test.parent
toolchain = root / "build" / "toolchain.json"
if not toolchain.exists():
    lit_config.fatal(f"{toolchain} does not exist: run `make setup`")
llvm_tools = json.loads(toolchain.read_text(encoding="utf-8"))["llvm_tools"]

config.name = "tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".py", ".test"]
# python/, integration/ and outside/ are pytest's.
config.excludes = ["lit.cfg.py", "python", "integration", "outside", "browser", "Inputs", "conftest.py"]
config.test_source_root = str(test)
config.test_exec_root = str(root / "build" / "test")
config.environment["PATH"] = ":".join(
    [str(root / "python" / "tilewright" / "bin"), llvm_tools, str(Path(sys.executable).parent), "/usr/bin", "/bin"]
)
config.substitutions.append(("%python", sys.executable))
# The emulator of a system's package, which instructions are counted in.
emulator = shutil.which("qemu-aarch64", path="/usr/bin:/bin")
if emulator and "-plugin" in subprocess.run([emulator, "-h"], capture_output=True, text=True).stdout:
    config.available_features.add("qemu-plugins")
# One compilation, each stage a file: test/Inputs/stages.py says how it is called.
config.substitutions.append(("%stages", f"{sys.executable} {test / 'Inputs' / 'stages.py'}"))
config.substitutions.append(("%instructions", f"{sys.executable} {test / 'Inputs' / 'instructions.py'}"))
config.substitutions.append(("%hot_loops", f"{sys.executable} {test / 'Inputs' / 'hot_loops.py'}"))
config.substitutions.append(("%hot_loop", f"{sys.executable} {test / 'Inputs' / 'hot_loop.py'}"))
config.substitutions.append(("%attention", f"{sys.executable} {test / 'Inputs' / 'attention.py'}"))
config.substitutions.append(("%conv2d", f"{sys.executable} {test / 'Inputs' / 'conv2d.py'}"))
# The schedule of a folder of stages, applied to its payload with the opt tool.
config.substitutions.append(
    (
        "%apply",
        "tilewright-opt %t/payload.mlir --transform-preload-library=transform-library-paths=%t/schedule.mlir "
        "--transform-interpreter",
    )
)
