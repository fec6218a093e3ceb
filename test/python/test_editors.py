# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Editors and shells: the extension for VS Code under node, its package, documentation by name, and completion."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from own_schedules import MATCH, TILED, written
from tilewright.cli import describe, main

sys.path.append(str(Path(__file__).parents[2] / "tools" / "setup"))
import vsix

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
TILE = f"%t, %l = transform.structured.tile_using_for %m tile_sizes [4] {TILED}"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def hosted(file: Path, line: int, column: int, *problem: str) -> dict:
    """What the extension says of a file, with the cursor at a line and a column."""
    host = ROOT / "test" / "Inputs" / "vscode_host.js"
    programs = Path(sys.executable).parent
    command = [str(NODE), str(host), str(EXTENSION), str(file), str(programs), str(line), str(column), *problem]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_node
def test_the_extension_shows_what_tilewright_says(tmp_path):
    file = written(tmp_path / "own.mlir", MATCH, TILE)
    column = TILE.index("tile_using_for")
    said = hosted(file, 3, column, "--shape", "16x32x8", "--target", "x86-64-v3")
    assert said["errors"] == said["diagnostics"] == []
    assert said["hover"][0].startswith("**structured.tile_using_for**")
    ir, asm = said["shown"]
    assert ir["name"].endswith("own.mlir after line 4.mlir")
    assert re.search(r"scf.for %\w+ = %c0\w* to %c16\w* step %c4", ir["text"])
    assert asm["name"].endswith("own.mlir.s")
    assert "own.mlir:4" in asm["text"]
    # Of %m, the line before.
    assert hosted(file, 3, TILE.index("%m") + 1, "--shape", "16x32x8")["definition"][0]["range"]["start"]["line"] == 2


@needs_node
def test_the_extension_shows_what_is_wrong(tmp_path):
    file = written(tmp_path / "bad.mlir", MATCH, TILE.replace("%m", "%absent"))
    said = hosted(file, 3, 0, "--shape", "16x32x8")
    (diagnostic,) = said["diagnostics"]
    assert diagnostic["message"] == "use of undeclared SSA value name"
    assert diagnostic["range"]["start"]["line"] == 3
    assert diagnostic["severity"] == 0
    assert said["shown"] == []
    assert len(said["errors"]) == 2
    assert all("bad.mlir" in each for each in said["errors"])


def test_the_package_is_what_vs_code_reads(tmp_path):
    made = vsix.pack(tmp_path)
    package = json.loads((EXTENSION / "package.json").read_text())
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
        listed = ElementTree.fromstring(archive.read("extension.vsixmanifest"))
        types = {each.get("Extension") for each in ElementTree.fromstring(archive.read("[Content_Types].xml"))}
    wanted = [package["main"], *(each["path"] for each in package["contributes"]["grammars"])]
    wanted += [each["configuration"] for each in package["contributes"]["languages"]]
    assert {f"extension/{each.removeprefix('./')}" for each in wanted} <= names
    for asset in listed.iter("{http://schemas.microsoft.com/developer/vsx-schema/2011}Asset"):
        assert asset.get("Path") in names
    assert {Path(name).suffix for name in names if name != "[Content_Types].xml"} <= types
    sources = {path.relative_to(EXTENSION).as_posix() for path in EXTENSION.rglob("*") if path.is_file()}
    assert sources == set(vsix.FILES)
    assert made.read_bytes() == vsix.pack(tmp_path / "again").read_bytes()


def test_patterns_of_the_grammar_are_expressions():
    grammar = json.loads((EXTENSION / "syntaxes" / "mlir.json").read_text())
    kinds = {each["name"]: each.get("match", "") for each in grammar["patterns"]}
    assert re.fullmatch(kinds["storage.type.mlir"], "f8E4M3FN")
    assert re.fullmatch(kinds["support.function.mlir"], "transform.structured.tile_using_for")
    assert not re.search(kinds["storage.type.mlir"], "vector.contract")


def test_everything_in_a_schedule_is_documented(capsys):
    known = describe.documented()
    for name in ("structured.tile_using_for", "tilewright.specialize_tiles", "tune.knob", "steps.tile", "mr", "kc"):
        assert len(known[name]) > 20, name
    assert main(["describe", "transform.structured.pack"]) == 0
    assert capsys.readouterr().out.startswith("structured.pack\n\n")
    assert main(["describe", "structured.tile_using_fo"]) == 2
    assert "expected structured.tile_using_for" in capsys.readouterr().err
    assert main(["describe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == known


def test_the_ir_after_a_line(tmp_path, capsys):
    file = written(tmp_path / "own.mlir", MATCH, TILE, "// a comment")
    assert main(["trace", "--shape", "16x32x8", "--schedule", str(file), "--line", "5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// after step 2, structured.tile_using_for, line 4 of own.mlir\nmodule")
    assert "scf.for" in text
    assert main(["trace", "--shape", "16x32x8", "--schedule", str(file), "--line", "1"]) == 2
    assert "no line" in capsys.readouterr().err
    assert main(["trace", "--shape", "16x32x8", "--line", "4"]) == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_verbs_and_options(tmp_path):
    script = 'eval "$(_TILEWRIGHT_COMPLETE=bash_source tilewright)"; complete -p tilewright'
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "_tilewright_completion" in done.stdout
    asked = {"_TILEWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "tilewright tra", "COMP_CWORD": "1"}
    done = subprocess.run(["tilewright"], env={**environment, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout == "plain,trace\n"
