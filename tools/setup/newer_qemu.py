# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs a QEMU that computes SME's byte outer products right: the system's 7.2, of Debian 12, skips every second row.

Only the one program is taken, out of the package of a newer Debian, whose programs need no libraries. apt checks its
signature with the keys that the system has; the system's own packages and lists are left as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from common import VENV, SetupError, output, run

PROGRAM = VENV / "bin" / "qemu-aarch64-sme"
"""Where it is put; the runtime looks for this name."""
_LEAST = 9
_SUITE = "trixie"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def is_needed() -> bool:
    """Whether there is no QEMU that is new enough."""
    paths = [str(PROGRAM), *filter(None, map(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")))]
    return all(_version(path) < _LEAST for path in paths)


def provide() -> None:
    """Downloads it, 71 MB, and puts its 16 MB into the virtual environment.

    Raises:
        SetupError: There is no virtual environment, no apt, no key, or no mirror has the package.
    """
    if not PROGRAM.parent.is_dir() or not _KEYS.exists():
        raise SetupError("no newer QEMU: it needs the virtual environment and the package debian-archive-keyring")
    sites = (output(["apt-get", "indextargets", "--format", "$(SITE)"]) or "").split()
    mirrors = [site for site in dict.fromkeys(sites) if "debian" in site and "security" not in site]
    if not mirrors:
        raise SetupError("no newer QEMU: apt has no Debian mirror")
    with tempfile.TemporaryDirectory() as folder:
        _extract(_download(mirrors[0], Path(folder)))


def _download(mirror: str, scratch: Path) -> Path:
    """The package, by a private apt configuration."""
    for each in ("lists/partial", "cache/archives/partial"):
        (scratch / each).mkdir(parents=True)
    source = f"deb [signed-by={_KEYS}] {mirror} {_SUITE} main\n"
    (scratch / "sources.list").write_text(source, encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "30",
    }
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", "-qq", *flags, "update"], what="reading the package lists")
    run(["apt-get", "-qq", *flags, "download", f"qemu-user/{_SUITE}"], what="downloading QEMU", cwd=scratch)
    return next(scratch.glob("qemu-user*.deb"))


def _extract(package: Path) -> None:
    """Takes the program out of the package, and nothing else of its 465 MB."""
    found = None
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as files,
    ):
        for member in files:
            content = files.extractfile(member) if member.name.endswith("/bin/qemu-aarch64") else None
            if content is not None:
                found = content.read()
    if found is None:
        raise SetupError(f"no newer QEMU: {package.name} has none")
    # In place at once: another process may be looking for it.
    made = PROGRAM.with_suffix(".new")
    made.write_bytes(found)
    made.chmod(0o755)
    made.replace(PROGRAM)


def _version(path: str) -> int:
    """The major version of a QEMU; 0 where there is none."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    found = re.search(r"version (\d+)", done.stdout)
    return int(found.group(1)) if found else 0
