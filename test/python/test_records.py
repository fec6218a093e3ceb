# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The database of measured choices: what is merged in any order, what is refused, and that killed writers lose nothing."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from record_samples import SPEC, trial
from tilewright.cli import main
from tilewright.cli.app import command
from tilewright.records import database, machine
from tilewright.records import trial as trials
from tilewright.records.database import Database, RecordError
from tilewright.records.trial import canonical
from tilewright.targets import get

KEY = machine.key(get("x86-64-v4"))
TEXT = canonical(trial().spec)


def exported(path):
    with Database(path) as found:
        return "".join(f"{line}\n" for line in found.lines())


def test_merging_gives_the_same_bytes_in_any_order_and_however_often(tmp_path):
    parts = []
    for number, members in enumerate(((0, 1, 2), (2, 3), (1, 4, 5, 6))):
        part = tmp_path / f"part{number}.jsonl"
        part.write_text("".join(sorted(f"{trial(each).line}\n" for each in members)))
        parts.append(str(part))
    found = set()
    for number, order in enumerate(itertools.permutations(parts)):
        into = tmp_path / f"into{number}.sqlite"
        for part in (*order, order[0]):
            assert main(["db", "merge", part, "--database", str(into)]) == 0
        found.add(exported(into))
    (text,) = found
    assert len(text.splitlines()) == 7
    # A database is merged like its lines.
    assert main(["db", "merge", str(tmp_path / "into0.sqlite"), "--database", str(tmp_path / "last.sqlite")]) == 0
    assert exported(tmp_path / "last.sqlite") == text


def test_the_last_final_comparison_decides(tmp_path):
    with Database(tmp_path / "records.sqlite") as found:
        assert found.latest(KEY, TEXT, 1) is None
        late = trial(1, moment="2026-11-24T06:00:00.000000Z", verdict="tied", gain=1.01)
        found.add([trial(2, final=False, moment="2026-11-25T06:00:00.000000Z"), late, trial()])
        assert found.latest(KEY, TEXT, 1) == late
        assert found.latest(KEY, TEXT, 2) is None
        assert len(found.of(KEY, TEXT, 1)) == 3
        assert found.prune() == 2
        assert list(found.lines()) == [late.line]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-20], "expected a trial, a line of JSON"),
        (lambda line: line.replace('"format":1', '"format":2'), "format 2; expected format 1"),
        (lambda line: line.replace('"gain":1.5,', ""), "field 'gain' is missing"),
        (lambda line: line.replace('"gain"', '"joy":1,"gain"'), "field 'joy' is unknown"),
        (lambda line: line.replace('"verdict":"won"', '"verdict":"best"'), "verdict is 'best'"),
        (lambda line: line.replace('"threads":1', '"threads":0'), "threads is 0"),
        (lambda line: line.replace('"mr":4', '"mr":-4'), "sizes is"),
        (lambda line: line.replace('"m":64', '"m":-64'), "spec is"),
        (lambda line: line.replace("0.0001,", "-1.0,"), "samples is"),
        (lambda line: line.replace('"final":true', '"final":1'), "final is 1"),
        (lambda line: line.replace("06:00:00.000000Z", "6 o'clock"), "moment is"),
        (lambda line: line.replace('"peak":100.0', '"peak":NaN'), "peak is nan"),
        (lambda line: line.replace('"peak":100.0', '"peak": 100.0'), "not in canonical form"),
        (lambda line: "[" * 10_000, "expected a trial"),
    ],
)
def test_a_damaged_line_is_refused_with_its_place_and_nothing_is_merged(tmp_path, change, message):
    line = trial(1).line
    assert change(line) != line
    file, into = tmp_path / "lines.jsonl", tmp_path / "into.sqlite"
    file.write_text(f"{trial().line}\n{change(line)}\n")
    with pytest.raises(RecordError, match=r"lines\.jsonl:2") as caught:
        database.read(file)
    assert message in str(caught.value)
    done = CliRunner().invoke(command, ["db", "merge", str(file), "--database", str(into)])
    assert isinstance(done.exception, RecordError)
    assert not into.exists()


def test_a_file_that_was_cut_short_is_refused(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text(f"{trial().line}\n{trial(1).line}")
    with pytest.raises(RecordError, match="the last line is cut short"):
        database.read(file)


def test_a_damaged_database_is_refused(tmp_path):
    path = tmp_path / "records.sqlite"
    with Database(path) as found:
        found.add(trial(number) for number in range(40))
    assert database.read(path)
    data = bytearray(path.read_bytes())
    data[5000:9000] = bytes(4000)
    path.write_bytes(data)
    with pytest.raises(RecordError):
        database.read(path)
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(RecordError):
        database.read(path)


def test_a_changed_trial_is_found(tmp_path):
    path = tmp_path / "records.sqlite"
    with Database(path) as found:
        found.add([trial()])
        found._connection.execute("UPDATE trial SET moment = '2027-01-01T00:00:00Z'")
        with pytest.raises(RecordError, match="was changed"):
            found.verify()


def test_a_database_of_something_else_is_left_alone(tmp_path):
    import sqlite3

    path = tmp_path / "other.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(RecordError, match="a database of something else"):
        Database(path)
    assert path.read_bytes() == before


WRITER = """
import sys
from collections import Counter
from pathlib import Path
from record_samples import trial
from tilewright.records.database import Database

number = int(sys.argv[2])
with Database(Path(sys.argv[1])) as into:
    for each in range(int(sys.argv[3])):
        into.add([trial(100_000 * number + each)])
        print(each, flush=True)
"""


def test_eight_writers_of_which_half_are_killed_lose_nothing(tmp_path):
    path, count, program = tmp_path / "records.sqlite", 25, tmp_path / "writer.py"
    program.write_text(WRITER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    writers = [
        subprocess.Popen(
            [sys.executable, str(program), str(path), str(number), str(10_000 if number % 2 else count)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for number in range(8)
    ]
    said = {}
    for number, writer in reversed([*enumerate(writers)]):
        assert writer.stdout is not None
        lines = []
        if number % 2:  # It would go on for long: it is killed when it has written some.
            lines = [writer.stdout.readline() for _ in range(5)]
            writer.kill()
        with writer.stdout as stdout:
            lines += stdout.readlines()
        writer.wait()
        said[number] = sum(line.endswith("\n") for line in lines)
    with Database(path) as found:
        assert found.verify() == len(list(found.lines()))
        kept = Counter(int(json.loads(line)["schedule"], 16) // 100_000 for line in found.lines())
    for number, least in said.items():
        assert least >= 5
        assert kept[number] >= least
        assert number % 2 or kept[number] == count


def test_what_db_says(tmp_path):
    path = str(tmp_path / "records.sqlite")
    with Database(Path(path)) as found:
        found.add([trial(), trial(1, threads=2, verdict="tied"), trial(2, final=False)])
    run = CliRunner().invoke
    said = json.loads(run(command, ["db", "stats", "--json", "--database", path]).output)
    assert said == {
        "trials": 3,
        "products": 2,
        "machines": 1,
        "verdicts": {"tied": 1, "won": 1},
        "database": path,
    }
    assert "3 trials of 2 products on 1 machines" in run(command, ["db", "stats", "--database", path]).output
    assert "3 trials, all sound" in run(command, ["db", "verify", "--database", path]).output
    text = run(command, ["db", "export", "-o", "-", "--database", path]).output
    assert text == exported(Path(path))
    file = tmp_path / "lines.jsonl"
    assert main(["db", "export", "-o", str(file), "--database", path]) == 0
    assert file.read_text() == text
    assert "3 trials, all sound" in run(command, ["db", "verify", str(file)]).output
    assert "1 trials removed" in run(command, ["db", "prune", "--database", path]).output
    assert main(["db", "stats", "--database", str(tmp_path / "none.sqlite")]) == 2


def test_each_fact_of_a_machine_tells_it_from_others():
    target = get("x86-64-v4")
    others = [
        replace(target, features=target.features - {"avx512vl"}),
        replace(target, l2=replace(target.l2, bytes=2 * target.l2.bytes)),
        replace(target, l3=None),
        replace(target, fma_per_cycle=target.fma_per_cycle + 1),
        get("x86-64-v3"),
    ]
    assert len({machine.key(each) for each in (target, *others)}) == 6
    assert trials.machine_key(trial()) == machine.key(target)


def test_a_trials_line_is_its_text_and_comes_back():
    assert trials.parse(trial().line, "here") == trial()
    assert trial().computed == SPEC
    assert trial().name != trial(1).name
    a = 'transform.tilewright.annotate #tilewright.schedule<strategy = "packed", source = "packed.py:30"> on %0'
    assert trials.schedule_digest(a) == trials.schedule_digest(a.replace("packed.py:30", "packed.py:31"))
    assert trials.schedule_digest(a) != trials.schedule_digest(a.replace('"packed"', '"other"'))
