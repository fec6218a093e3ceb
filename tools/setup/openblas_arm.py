# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Debian's OpenBLAS for AArch64 with the C library that it needs: what emulated kernels are compared with.

The packages are of another architecture, so they are not installed: a private apt configuration downloads them from the mirror
that the system uses, and the few libraries in them that are needed go into one folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import apt_source
from common import SetupError, output, run, say
from sources import cache_folder

PACKAGES = ("libopenblas0-serial", "libgfortran5", "libgcc-s1", "libc6")
LIBRARIES = (
    "ld-linux-aarch64.so.1",
    "libopenblas.so.0",
    "libgfortran.so.5",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
)
VERSION = "version.txt"
"""The file that says which OpenBLAS it is, as Debian counts; written last."""


def folder() -> Path:
    """Where it is put: below the folder of the benchmark's peers, as `tilewright.knobs` has it."""
    named = os.environ.get("TILEWRIGHT_PEERS_DIR")
    return (Path(named).expanduser().absolute() if named else cache_folder() / "peers") / "openblas-arm64"


def ensure() -> None:
    """Downloads it, unless it is there.

    Raises:
        SetupError: There is no apt, or no mirror has the packages.
    """
    into = folder()
    if (into / VERSION).exists():
        return
    say(f"fetching OpenBLAS for AArch64 into {into}")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=into.parent) as scratch:
        found = _collect(download(PACKAGES, Path(scratch)), Path(scratch))
        shutil.rmtree(into, ignore_errors=True)
        os.replace(found, into)


def download(packages: Sequence[str], scratch: Path) -> list[Path]:
    """The files of packages for AArch64.

    Raises:
        SetupError: There is no apt, or no mirror has them.
    """
    listed = output(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"])
    if listed is None:
        raise SetupError("apt-get is not here")
    places = dict.fromkeys(tuple(line.split()) for line in listed.splitlines() if len(line.split()) == 2)
    failures = []
    for site, release in places:
        # Other archives than Debian's main one have no port to AArch64, or none of these packages.
        if "debian" not in site or "security" in site or "-" in release:
            continue
        flags = apt_source.private(
            scratch / release,
            f"deb [arch=arm64] {site} {release} main",
            {"APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State::status": "/dev/null"},
        )
        try:
            run(["apt-get", "-q", *flags, "update"], what="reading the package lists")
            run(["apt-get", "-q", *flags, "download", *packages], what=f"downloading {packages[0]}", cwd=scratch)
        except SetupError as error:
            failures.append(f"{release}: {error}")
            continue
        return list(scratch.glob("*.deb"))
    raise SetupError("; ".join(failures) or "apt has no Debian mirror")


def _collect(archives: list[Path], scratch: Path) -> Path:
    """A folder with the libraries of the packages, and the version of OpenBLAS."""
    unpacked, found = scratch / "unpacked", scratch / "found"
    for archive in archives:
        run(["dpkg-deb", "-x", archive, unpacked], what=f"unpacking {archive.name}")
    (found / "lib").mkdir(parents=True)
    for name in LIBRARIES:
        places = sorted(unpacked.rglob(name))
        if not places:
            raise SetupError(f"the packages {' '.join(PACKAGES)} have no {name}")
        shutil.copyfile(places[0], found / "lib" / name)
    (found / "lib" / LIBRARIES[0]).chmod(0o755)
    version = next(archive.name.split("_")[1] for archive in archives if archive.name.startswith(PACKAGES[0]))
    (found / VERSION).write_text(version, encoding="utf-8")
    return found
