# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line on narrow terminals, with few characters, and when somebody presses Ctrl-C."""

import io
import signal
import sys

import pytest
from processes import in_new_process, new_process
from tilewright import targets
from tilewright.cli import main, streams
from tilewright.targets.registry import GPUS


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("options", [(), ("--types",)])
def test_targets_have_their_names_whole(capsys, monkeypatch, columns, options):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["targets", *options]) == 0
    printed = capsys.readouterr().out
    first = [line.split()[0] for line in printed.splitlines() if line.startswith(" ") and line.split()]
    wanted = [each.name for each in (*targets.all(), *(GPUS if options else ()))]
    assert [name for name in first if name in wanted] == wanted
    assert "…" not in printed


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_targets_have_their_features_whole(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["targets"]) == 0
    words = capsys.readouterr().out.replace(",", " ").split()
    assert {feature for each in targets.all() for feature in each.features} <= set(words)


def printed_as(encoding, text, monkeypatch):
    """The bytes that standard output is given for a text."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    streams.prepare()
    stream.write(text)
    stream.flush()
    return stream.buffer.getvalue()


def test_an_encoding_without_a_character_spells_it(monkeypatch):
    assert printed_as("ascii", "3 × 5 µs – é…", monkeypatch) == b"3 x 5 us - ?..."
    assert printed_as("latin-1", "3 × 5 µs – é", monkeypatch) == "3 × 5 µs - é".encode("latin-1")
    assert printed_as("utf-8", "3 × 5 µs – é", monkeypatch) == "3 × 5 µs – é".encode()


def test_a_file_name_that_is_no_text_keeps_its_bytes(monkeypatch):
    assert printed_as("utf-8", b"k\xff.o".decode("utf-8", "surrogateescape"), monkeypatch) == b"k\xff.o"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("verb", [["targets"], ["targets", "--types"], ["run", "--help"], ["run", "--shape", "4x4x4"]])
def test_a_verb_prints_in_any_encoding(monkeypatch, encoding, verb):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    in_new_process(f"import sys\nfrom tilewright.cli import main\nsys.exit(main({verb}))")


INTERRUPTED = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # Whoever started the tests may ignore it.

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from tilewright.cli import main
sys.exit(main(["compile", "--shape", "4x4x4", "--emit", "asm"]))
"""


@pytest.mark.parametrize("module", ["click", "tilewright.cli.app", "numpy", "tilewright._codegen"])
def test_an_interrupted_import_ends_with_one_line(module):
    run = new_process(INTERRUPTED.format(module=module))
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "tilewright: interrupted\n")


def test_until_interrupts_are_handled_little_is_imported():
    """Whoever presses Ctrl-C before gets Python's traceback."""
    program = "import sys; before = set(sys.modules); import tilewright.cli; print(*set(sys.modules) - before)"
    heavy = {"click", "rich", "numpy", "typing", "re", "dataclasses", "tilewright.errors", "tilewright.cli.app"}
    assert heavy.isdisjoint(in_new_process(program, "-S").split())


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_the_handler_of_interrupts_is_left_as_it_was(capsys, handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    capsys.readouterr()
