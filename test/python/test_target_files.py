# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Targets of one's own, from .toml and .py files: what is read, and what errors say."""

import dataclasses
import json
import re
import sys

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright import targets
from tilewright.cli.app import command, main
from tilewright.errors import TargetError

BASE = targets.get("neoverse-n1")
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")


@pytest.fixture
def written(tmp_path):
    def written(text: str, name: str = "own.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


@needs_toml
def test_a_table_takes_the_place_of_fields_of_its_base(written):
    file = written(
        'base = "neoverse-n1"\nfma_per_cycle = 4\nfeatures = ["neon", "dotprod"]\nl2 = { bytes = 4194304 }\n'
    )
    assert targets.load(file) == dataclasses.replace(
        BASE,
        name="own",
        fma_per_cycle=4,
        features=frozenset({"neon", "dotprod"}),
        l2=dataclasses.replace(BASE.l2, bytes=4194304),
        source=str(file),
    )


@needs_toml
def test_a_base_may_be_a_gpu_or_this_machine(written):
    card = targets.load(written('base = "sm_80"\nshared_bytes = 65536\n'))
    assert isinstance(card, tw.GpuTarget)
    assert card.shared_bytes == 65536
    host = targets.load(written('base = "host"\nmasked = false\n'))
    assert isinstance(host, tw.Target)
    assert host.features == targets.resolve("host").features
    assert not host.masked


@needs_toml
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fma_per_cycle = 4", "base is None; expected one of host, "),
        ('base = "z80"', "base is 'z80'; expected one of host, "),
        ('base = "neoverse-n1"\nlanes = 4', "unknown field 'lanes'; expected one of name, "),
        ('base = "neoverse-n1"\nemulation = 4', "unknown field 'emulation'"),
        ('base = "neoverse-n1"\nvector_bits = "wide"', "vector_bits: 'wide'; expected an integer"),
        ('base = "neoverse-n1"\nvector_bits = true', "vector_bits: True; expected an integer"),
        ('base = "neoverse-n1"\nvector_bits = 100', "vector_bits is 100; expected a power of two"),
        (
            'base = "znver4"\npasses = 4',
            "passes is 4; expected 1, or 2 where half a vector of 512 bits takes half the time",
        ),
        ('base = "znver4"\npasses = 0', "passes is 0; expected 1, or 2"),
        ('base = "neoverse-n1"\nfeatures = ["neon", 3]', "features: ['neon', 3]; expected a list of strings"),
        ('base = "neoverse-n1"\nfeatures = ["+neon"]', "feature '+neon'; expected an LLVM feature name without sign"),
        ('base = "neoverse-n1"\nl2 = 3', "l2: 3; expected a table of bytes, ways, line and cpus"),
        (
            'base = "neoverse-n1"\nl2 = { size = 3 }',
            "l2: unknown field 'size'; expected one of bytes, ways, line, cpus",
        ),
        ('base = "neoverse-n1"\nl2 = { ways = "4" }', "l2.ways: '4'; expected an integer"),
        ('base = "neoverse-n1"\nl2 = { line = 3 }', "l2: line is 3 bytes"),
        ('base = "armv8-a"\nl3 = { ways = 3 }', "l3: sizes are missing; expected a table of bytes"),
        ("base = ", "Invalid value"),
    ],
)
def test_an_error_names_the_file_the_field_and_what_was_expected(written, text, message):
    file = written(text)
    with pytest.raises(TargetError, match=f"^{re.escape(str(file))}: .*{re.escape(message.split(': ')[-1])}"):
        targets.load(file)


def test_a_program_defines_a_target(written):
    text = "import dataclasses\nfrom tilewright import targets\n"
    text += 'target = dataclasses.replace(targets.get("neoverse-n1"), name="mine")\n'
    assert targets.load(written(text, "own.py")) == dataclasses.replace(BASE, name="mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "target is nothing; expected target = a tilewright.Target"),
        ("target = 3", "target is a int; expected"),
        ("x = 1\nraise ValueError('no')", ":2: ValueError: no"),
        ("x = (", ":1: SyntaxError: "),
        ("raise SystemExit(3)", ":1: SystemExit: 3"),
    ],
)
def test_a_program_that_defines_none(written, text, message):
    with pytest.raises(TargetError, match=re.escape(message)):
        targets.load(written(text, "own.py"))


def test_files_that_are_none(tmp_path):
    with pytest.raises(TargetError, match="cannot read it: No such file"):
        targets.load(tmp_path / "none.toml")
    with pytest.raises(TargetError, match=r"expected one of \.py, \.toml"):
        targets.load("own.json")
    with pytest.raises(TargetError, match=r"targets\.load reads one from a \.toml or \.py file"):
        targets.resolve("own.toml")


@needs_toml
def test_every_verb_that_compiles_takes_a_file(written, tmp_path, capsys):
    file = str(written('base = "neoverse-n1"\nname = "mine"\nfma_per_cycle = 4\n'))
    shape = ("--shape", "16x16x16", "--target", file)
    assert main(["compile", *shape, "--emit", "asm", "-o", "-"]) == 0
    assert "fmla" in capsys.readouterr().out
    assert main(["explain", *shape, "-o", str(tmp_path / "folder")]) == 0
    assert "for mine" in capsys.readouterr().out
    assert list(json.loads(CliRunner().invoke(command, ["stages", "--target", file, "--json"]).output)) == ["cpu"]
    assert main(["run", "--shape", "16x16x16", "--target", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot read it" in capsys.readouterr().err
