# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""House rules that a program can keep, over every tracked file."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPDX = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
MAX_LINES = 600
CODE = {".py", ".pyi", ".c", ".cc", ".cpp", ".h", ".hpp", ".td", ".cmake", ".sh", ".mlir", ".toml"}
CODE_NAMES = {"CMakeLists.txt", "Makefile"}

# Written in pieces, so that this file does not break its own rules.
REGISTRIES = re.compile(
    "|".join(
        re.escape(host)
        for host in (
            "pypi" + ".org",
            "pythonhosted" + ".org",
            "anaconda" + ".org",
            "crates" + ".io",
            "npmjs" + ".org",
            "npmjs" + ".com",
            "ghcr" + ".io",
            "docker" + ".io",
            "deb.debian" + ".org",
            "debian" + ".org/debian",
        )
    )
)
MACHINE_PATHS = re.compile(r"(?<![\w.$)}/-])/(?:work|tmp|root|home|opt/pypi)/[\w.-]")
# Split, as above; three capital X and more are templates of temporary names, not notes.
NOTES = re.compile(r"\b(?:" + "TO" + "DO|FIX" + "ME|HA" + "CK" + r")\b(?!\(#\d+\))")

GIT = shutil.which("git")
in_a_checkout = pytest.mark.skipif(
    GIT is None or not (ROOT / ".git").exists(), reason="tracked files are known in a git checkout only"
)


def tracked() -> Iterator[Path]:
    """Tracked files that exist."""
    listing = subprocess.run([str(GIT), "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listing.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield ROOT / name


def text_of(file: Path) -> str | None:
    """The text of `file`, or None when it is binary."""
    data = file.read_bytes()
    return None if b"\0" in data else data.decode("utf-8", errors="replace")


def is_code(file: Path, text: str) -> bool:
    """Whether `file` is a source of a language that has comments."""
    return file.suffix in CODE or file.name in CODE_NAMES or text.startswith("#!")


def breaches(file: Path, text: str) -> Iterator[str]:
    """What in `text`, the content of `file`, is against the rules."""
    lines = text.splitlines()
    if is_code(file, text) and lines:
        if len(lines) > MAX_LINES:
            yield f"{len(lines)} lines, more than {MAX_LINES}: split it"
        if not any(SPDX in line for line in lines[:3]):
            yield f"the first lines do not say '{SPDX}'"
    for number, line in enumerate(lines, 1):
        if found := REGISTRIES.search(line):
            yield f"{number}: names a package registry's host, {found[0]}"
        if found := MACHINE_PATHS.search(line):
            yield f"{number}: names a path of one machine, {found[0]}…"
        if found := NOTES.search(line):
            yield f"{number}: {found[0]} without an issue, write {found[0]}(#12)"


@in_a_checkout
def test_tracked_files_keep_the_rules():
    broken = [
        f"{file.relative_to(ROOT)}: {breach}"
        for file in tracked()
        if (text := text_of(file)) is not None
        for breach in breaches(file, text)
    ]
    assert broken == []


HEADER = f"# {SPDX}\n"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("long.py", HEADER + "x = 1\n" * MAX_LINES, "601 lines"),
        ("bare.py", '"""No header."""\n', "first lines"),
        ("bare.cpp", "int x;\n", "first lines"),
        ("CMakeLists.txt", "project(x)\n", "first lines"),
        ("script", "#!/bin/sh\nexit 0\n", "first lines"),
        ("late.py", "\n\n\n" + HEADER, "first lines"),
        ("page.md", "from https://pypi" + ".org/simple\n", "1: names a package registry's host"),
        ("page.md", "see /" + "work/main\n", "names a path of one machine"),
        ("page.md", 'cd "/' + 'tmp/x"\n', "names a path of one machine"),
        ("note.py", HEADER + "# TO" + "DO: later\n", "2: TO" + "DO without an issue"),
        ("note.md", "FIX" + "ME(someone)\n", "without an issue"),
    ],
)
def test_a_planted_breach_is_found(name, text, what):
    (breach,) = breaches(Path(name), text)
    assert what in breach


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fine.py", HEADER + "x = 1\n" * (MAX_LINES - 1)),
        ("script", "#!/bin/sh\n" + HEADER),
        ("empty.py", ""),
        ("data.json", "[]\n" * 1000),
        ("page.md", "network/" + "work/x, ${TMPDIR:-/" + "tmp}, $ROOT/" + "work/x, TO" + "DO(#12)\n"),
    ],
)
def test_what_keeps_the_rules_is_not_found(name, text):
    assert list(breaches(Path(name), text)) == []
