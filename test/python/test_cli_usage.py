# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad usage and bad input: status 2 and one line that says what is wrong and what would be right."""

import errno
import os

import pytest
from tilewright.cli import app, main
from tilewright.errors import TilewrightError

SHAPE = ("--shape", "8x8x8")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Every test works in a folder of its own, with a few things that are in the way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(app.TRACEBACK, raising=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("precious")
    (tmp_path / "bytes.mlir").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.mlir").write_text("module {")
    (tmp_path / "empty.mlir").write_text("module {}\n")
    (tmp_path / "three.py").write_text("def schedule(spec, target, sizes):\n    return 3\n")
    (tmp_path / "raises.py").write_text("def schedule(spec, target, sizes):\n    raise KeyError('x')\n")
    return tmp_path


def refused(capsys, *arguments):
    """The one line on standard error of a command that ends with status 2 and prints nothing else."""
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tilewright: ")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing command. See tilewright --help"),
        (("nosuch",), "No such command 'nosuch'"),
        (("run",), "neither FILE.mlir nor --shape given; expected one"),
        (("run", "--shape"), "requires an argument"),
        (("run", "--shape", "3x3"), "'3x3' is no shape; expected MxNxK"),
        (("run", "--shape", "axbxc"), "expected MxNxK"),
        (("run", "--shape", "4xNonex4"), "expected MxNxK"),
        (("run", "--shape", "4x4x"), "expected MxNxK"),
        (("run", "--shape", "1_0x4x4"), "expected MxNxK"),
        (("run", "--shape", "+1x4x4"), "expected MxNxK"),
        (("run", "--shape", "٣x4x4"), "expected MxNxK"),
        (("run", "--shape", f"{'9' * 5000}x1x1"), "expected MxNxK"),
        (("run", "--shape=-1x2x3"), "expected MxNxK"),
        (("run", "--shape", "99999999999x1x1"), "expected an extent from 0 to"),
        (("run", "--shape", "2000000x2000000x2"), "the memory that is free"),
        (("run", *SHAPE, "--nosuch"), "No such option '--nosuch'"),
        (("run", *SHAPE, "extra"), "both FILE.mlir and --shape given"),
        (("run", *SHAPE, "--dtype", "f99"), "unknown element type 'f99'; expected one of f32, f64"),
        (("run", *SHAPE, "--dtype", "f32,f32"), "expected one type"),
        (("run", *SHAPE, "--dtype", "f32,f32,f64"), "not supported yet"),
        (("run", *SHAPE, "--threads", "2000"), "--threads: threads is 2000; expected an int from 1 to 1024"),
        (("run", *SHAPE, "--threads", "0"), "--threads: threads is 0; expected an int from 1"),
        (("run", *SHAPE, "--threads", "many"), "not a valid integer"),
        (("run", *SHAPE, "--target", "vax"), "unknown target 'vax'; expected one of host, x86-64"),
        (("run", *SHAPE, "--schedule", "nosuch"), "unknown strategy 'nosuch'; expected one of outer_product"),
        (("run", *SHAPE, "--schedule", "absent.py"), "absent.py: cannot read"),
        (("run", *SHAPE, "--schedule", "absent.mlir"), "absent.mlir: cannot read"),
        (("run", *SHAPE, "--schedule", "bytes.mlir"), "no UTF-8"),
        (("run", *SHAPE, "--schedule", "three.py"), "expected a transform module"),
        (("run", *SHAPE, "--schedule", "raises.py"), "raises.py:2: KeyError"),
        (("run", *SHAPE, "--schedule", "empty.mlir"), "__transform_main"),
        (("run", *SHAPE, "--set", "kc"), "expected NAME=SIZE, such as kc=128"),
        (("run", *SHAPE, "--set", "kc=much"), "expected NAME=SIZE"),
        (("run", *SHAPE, "--set", f"kc={'9' * 5000}"), "expected NAME=SIZE"),
        (("run", *SHAPE, "--set", "kc=0"), "kc is 0; expected an int from 1 to 2147483647"),
        (("run", *SHAPE, "--set", "zz=3"), "unknown parameter 'zz'; expected one of mr"),
        (("run", *SHAPE, "--set", "kc=1", "--set", "kc=2"), "kc is set twice"),
        (("run", *SHAPE, "--schedule", "empty.mlir", "--set", "mr=4"), "a .mlir schedule takes no sizes, and mr given"),
        (("run", *SHAPE, "--target", "sm_80", "--vector-length", "256"), "a vector length for sm_80; expected none"),
        (("run", *SHAPE, "--target", "sm_80", "--schedule", "empty.mlir", "--set", "bm=64"), "takes no sizes, and bm"),
        (("run", *SHAPE, "--seed", "-1"), "not in the range"),
        (("run", *SHAPE, "--beta", "two"), "'two' is neither a number nor 'arg'"),
        (("compile", *SHAPE), "nowhere to write; expected -o FILE"),
        (("compile", "-o", "k.o"), "neither FILE.mlir nor --shape given; expected one"),
        (("compile", *SHAPE, "-o", "k"), "expected one of .mlir .ll .s .o .so .h"),
        (("compile", *SHAPE, "-o", "k.foo"), "expected one of .mlir"),
        (("compile", *SHAPE, "-o", ""), "expected one of .mlir"),
        (("compile", *SHAPE, "-o", "-"), "--emit STAGE"),
        (("compile", *SHAPE, "-o", "absent/k.o"), "does not exist; expected a file in a folder that exists"),
        (("compile", *SHAPE, "-o", "file/k.o"), "is no folder"),
        (("compile", *SHAPE, "--emit", "asm", "-o", "folder"), "it is a folder"),
        (("compile", *SHAPE, "--shape", "1x1x1", "-o", "k.o"), "2 shapes given; expected one"),
        (("compile", *SHAPE, "empty.mlir", "-o", "k.o"), "both FILE.mlir and --shape"),
        (("compile", *SHAPE, "--emit", "asm", "-o", "k.o"), "--emit asm does not go into a .o file"),
        (("compile", *SHAPE, "--emit", "nosuch"), "'nosuch' is not one of 'payload'"),
        (("compile", "absent.mlir", "-o", "k.o"), "absent.mlir: cannot read it: No such file"),
        (("compile", "folder", "-o", "k.o"), "Is a directory"),
        (("compile", "bytes.mlir", "-o", "k.o"), "no UTF-8 text"),
        (("compile", "broken.mlir", "-o", "k.o"), "broken.mlir:1:"),
        (("compile", "empty.mlir", "-o", "k.o"), "expected a func.func with linalg ops"),
        (("compile", "empty.mlir", "-o", "./empty.mlir"), "is also the source"),
        (("compile", *SHAPE, "-o", "k.o", "--header", "k.o"), "k.o is also -o"),
        (("compile", *SHAPE, "-o", "k.o", "--header", "-"), "expected the name of a file"),
        (("compile", *SHAPE, "-o", "k.o", "--header", "absent/k.h"), "does not exist"),
        (("compile", *SHAPE, "--schedule", "empty.mlir", "--set", "mr=4", "-o", "k.o"), "takes no sizes, and mr given"),
        (("compile", "empty.mlir", "--dtype", "f64", "-o", "k.o"), "both FILE.mlir and --dtype given"),
        (("compile", "empty.mlir", "--beta", "0", "-o", "k.o"), "both FILE.mlir and --beta given"),
        (("explain", "empty.mlir", "--layout", "nt", "-o", "new"), "both FILE.mlir and --layout given"),
        (("explain", *SHAPE, "--schedule", "empty.mlir", "--set", "mr=4", "-o", "new"), "takes no sizes, and mr given"),
        (("explain", *SHAPE), "Missing option '-o'"),
        (("explain", *SHAPE, "-o", ""), "-o is empty"),
        (("explain", *SHAPE, "-o", "file"), "it is no folder; expected a new or an empty folder"),
        (("explain", *SHAPE, "-o", "file/sub"), "is no folder"),
        (("explain", *SHAPE, "-o", "."), "it has files that no earlier explain wrote"),
        (("bench",), "nothing to measure; expected --shape MxNxK or --suite NAME"),
        (("bench", "--suite", "nosuch"), "unknown suite 'nosuch'; expected one of square"),
        (("bench", "--shape", "0x1x1"), "extent of 0"),
        (("bench", *SHAPE, "--rounds", "0"), "not in the range"),
        (("bench", *SHAPE, "--peers", "nosuch"), "unknown peer 'nosuch'; expected"),
        (("bench", *SHAPE, "--json", "absent/b.json"), "does not exist"),
        (("bench", *SHAPE, "--report", "folder"), "it is a folder"),
        (("bench", *SHAPE, "--plots", "file"), "file is no folder"),
        (("bench", *SHAPE, "--report", "absent/b.md"), "does not exist"),
        (("bench", "compare", "absent.json", "file"), "cannot read absent.json"),
        (("bench", "compare", "file", "file"), "it is no JSON; expected what bench --json wrote"),
        (
            ("bench", *SHAPE, "--peers", "none", "--schedule", "empty.mlir", "--set", "mr=4"),
            "takes no sizes, and mr given",
        ),
        (("bench", *SHAPE, "--shape", "9x9x9", "--peers", "none", "--schedule", "nosuch"), "unknown strategy 'nosuch'"),
        (("bench", *SHAPE, "--command", "x"), "--command given without --report; expected both"),
        (("bench", *SHAPE, "setup"), "--shape given before setup; expected it after the verb, if it has it"),
        (("bench", "setup", *SHAPE), "No such option"),
        (("bench", "file"), "No such command 'file'"),
        (("bench", "card", "new", "--dtype", "f64"), "No such option"),
        (("bench", "card", "new", "--command", "x"), "--command given without --report; expected both"),
        (("bench", "conv", "resnet50", "--packing", "ahead"), "No such option"),
        (("bench", "conv", "resnet50", "--json", "absent/b.json"), "does not exist"),
        (("bench", "conv", "vgg"), "no network 'vgg'; expected one of resnet50"),
        (("bench", "attention", "decode", "--cache", "cold"), "No such option"),
        (("bench", "attention", "encode"), "no suite of attention 'encode'; expected one of prefill"),
        (("bench", "weights", "i4:128", *SHAPE, "--peers", "mkl"), "no weights by 'mkl'; expected some of ggml"),
        (("bench", "weights", "i4:128", "file", *SHAPE), "unexpected extra argument"),
        (("bench", "weights", "i4:128"), "nothing to measure; expected --shape"),
        (("targets", "extra"), "unexpected extra argument"),
    ],
)
def test_one_line_says_what_is_wrong(capsys, place, arguments, says):
    before = sorted(path.name for path in place.iterdir())
    assert says in refused(capsys, *arguments)
    assert [name for name in sorted(path.name for path in place.iterdir()) if name != "cache"] == before
    assert (place / "file").read_text() == "precious"


def test_an_unusable_cache_is_named(capsys, monkeypatch, place):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(place / "file"))
    assert "TILEWRIGHT_CACHE_DIR" in refused(capsys, "run", *SHAPE)


def test_a_target_that_this_machine_cannot_run_is_refused_by_run_only(capsys, monkeypatch):
    def refuse(target, features=None):
        raise TilewrightError("this machine cannot run code for it: it lacks avx512f", remedy="Use host")

    monkeypatch.setattr("tilewright.targets.runnable", lambda target, features=None: ("avx512f",))
    monkeypatch.setattr("tilewright.targets.require_runnable", refuse)
    assert "it lacks avx512f" in refused(capsys, "run", *SHAPE, "--target", "x86-64-v4")
    assert main(["compile", *SHAPE, "--target", "x86-64-v4", "--emit", "payload"]) == 0


def commands(command, words=()):
    """The command line and every verb below it, each with the words that lead to it."""
    yield pytest.param(command, words, id=" ".join(words) or "tilewright")
    for name, verb in getattr(command, "commands", {}).items():
        yield from commands(verb, (*words, name))


COMMANDS = list(commands(app.command))


@pytest.mark.parametrize(("command", "words"), COMMANDS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(capsys, command, words, option):
    assert main([*words, option]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {' '.join(['tilewright', *words])}")


@pytest.mark.parametrize(("command", "words"), COMMANDS)
def test_a_verb_has_the_names_of_its_help_itself(command, words):
    """click keeps the help option of the first call in a process, also when that one came without the group above."""
    assert command.make_context("alone", [], resilient_parsing=True).help_option_names == ["-h", "--help"]


def test_version(capsys):
    assert main(["--version"]) == 0
    name, version = capsys.readouterr().out.split()
    assert name == "tilewright"
    assert version[0].isdigit()


def fails_with(monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr("tilewright.targets._survey", fail)


def test_a_bug_is_one_line_with_status_70(capsys, monkeypatch):
    fails_with(monkeypatch, RuntimeError("two\nlines"))
    assert main(["targets"]) == 70
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "a bug in tilewright: RuntimeError: two lines." in printed
    assert app.TRACEBACK in printed


@pytest.mark.parametrize("error", [RuntimeError("deep"), TilewrightError("deep")])
def test_the_traceback_can_be_asked_for(capsys, monkeypatch, error):
    monkeypatch.setenv(app.TRACEBACK, "1")
    fails_with(monkeypatch, error)
    assert main(["targets"]) in (2, 70)
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "in fail" in printed
    assert printed.splitlines()[-1].startswith("tilewright: ")


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("Unable to allocate 3 TiB"), 2, "out of memory: Unable to allocate 3 TiB"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.json"), 2, "x.json: No space left on device"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), 2, "Permission denied"),
    ],
)
def test_other_ends(capsys, monkeypatch, error, status, says):
    fails_with(monkeypatch, error)
    assert main(["targets"]) == status
    assert says in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_error(capsys, monkeypatch):
    fails_with(monkeypatch, BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert main(["targets"]) == 141
    assert capsys.readouterr().err == ""
