# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs the test suites of others that `tools/outside` runs on our BLAS. `make setup-outside` calls it.

Programs come as Debian's packages. Suites that no package carries are in Debian's source packages, which a private apt
configuration downloads. The wheels of numpy and scipy go into an environment of their own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import apt_source
import netlib
import openblas_arm
import packages
from common import SetupError, output, run, say
from sources import cache_folder

NEEDS = (
    netlib.TESTERS,
    packages.Need(
        "netlib's testers of LAPACK",
        lambda: any(Path("/usr/lib").glob("*/lapack/xlintsts")),
        ("liblapack-test",),
        required=False,
    ),
    packages.Need("R", lambda: packages.has_program("R"), ("r-base-core",), required=False),
    packages.Need("Octave", lambda: packages.has_program("octave-cli"), ("octave",), required=False),
    packages.Need(
        "Debian's numpy and scipy",
        lambda: all(
            Path("/usr/lib/python3/dist-packages", name).exists() for name in ("numpy", "scipy", "pytest", "hypothesis")
        ),
        ("python3-numpy", "python3-scipy", "python3-pytest", "python3-hypothesis"),
        required=False,
    ),
    packages.Need(
        "the header and the reference of CBLAS",
        lambda: any(Path("/usr/include").glob("*/cblas-netlib.h")),
        ("libblas-dev", "liblapack-dev"),
        required=False,
    ),
    packages.Need(
        "an emulator of other processors",
        lambda: packages.has_program("qemu-x86_64"),
        ("qemu-user",),
        required=False,
    ),
    packages.Need("musl's C library", lambda: packages.has_program("musl-gcc"), ("musl-tools",), required=False),
)
ARM_PACKAGES = ("libblas-test", "libblas3", "libgfortran5", "libgcc-s1", "libc6")
"""Netlib's testers and BLAS for AArch64, and what they need, which run on an emulator."""
WHEELS = ("numpy", "scipy", "scikit-learn", "pytest", "hypothesis", "pooch", "threadpoolctl")
_STAMP = "tilewright-wheels.txt"
"""In the environment: the wheels that it was made with."""


@dataclass(frozen=True)
class Source:
    """A source package of Debian.

    Attributes:
        release: Where it is; "" for the system's own release.
        kept: The folders of it that are kept; the names in the archive have one folder before them.
    """

    release: str
    kept: tuple[str, ...]


# Of 0.9.0, the mirrors lack the archive.
SOURCES = {
    "blis": Source("trixie", ("blastest",)),
    "openblas": Source("", ("utest", "cpp_thread_test")),
    "r-base": Source("", ("tests",)),
}


def folder() -> Path:
    """Where what is fetched lies."""
    return cache_folder() / "outside"


def arm() -> Path:
    """The folder that is the root of the programs for AArch64."""
    return folder() / "aarch64"


def python() -> Path:
    """The interpreter of the environment with the wheels."""
    return folder() / "venv" / "bin" / "python"


def has_wheels() -> bool:
    """Whether the environment has every wheel of `WHEELS`."""
    stamp = folder() / "venv" / _STAMP
    return python().exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == " ".join(WHEELS)


def sources(package: str) -> Path:
    """The folder of a source package."""
    return folder() / package


def missing(package: str) -> str | None:
    """What to do where a source package has not been fetched; None where it is there."""
    return None if sources(package).is_dir() else f"the sources of {package} are not here: make setup-outside"


def main() -> int:
    """Installs what is missing; 0 also where something cannot be had, after a line that says why."""
    try:
        packages.provide(list(NEEDS))
    except SetupError as error:
        say(str(error))
    for package, source in SOURCES.items():
        if not sources(package).is_dir():
            try:
                _fetch(package, source)
            except (SetupError, OSError, tarfile.TarError) as error:
                say(f"going on without the tests of {package}: {error}")
    if not arm().is_dir():
        try:
            _fetch_arm()
        except (SetupError, OSError) as error:
            say(f"going on without netlib's testers for AArch64: {error}")
    if not has_wheels():
        try:
            _wheels()
        except SetupError as error:
            say(f"going on without the wheels of numpy and scipy: {error}")
    return 0


def _wheels() -> None:
    """An environment with the wheels, whole or not at all.

    Raises:
        SetupError: They cannot be installed.
    """
    environment = folder() / "venv"
    say(f"installing {' '.join(WHEELS)} into {environment}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    try:
        run([sys.executable, "-I", "-m", "venv", environment], what="making an environment")
        pip = [environment / "bin" / "python", "-I", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        run([*pip, *WHEELS], what="installing numpy and scipy")
        (environment / _STAMP).write_text(" ".join(WHEELS), encoding="utf-8")
    except SetupError:
        shutil.rmtree(environment, ignore_errors=True)
        raise


def _fetch_arm() -> None:
    """Downloads the packages for AArch64 and unpacks them.

    Raises:
        SetupError: There is no apt, or no mirror has them.
    """
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder()) as scratch:
        unpacked = Path(scratch) / "unpacked"
        for archive in openblas_arm.download(ARM_PACKAGES, Path(scratch)):
            run(["dpkg-deb", "-x", archive, unpacked], what=f"unpacking {archive.name}")
        os.replace(unpacked, arm())


def _fetch(package: str, source: Source) -> None:
    """Downloads a source package and keeps the wanted folders of it.

    Raises:
        SetupError: There is no apt, or no mirror has the package.
    """
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder()) as scratch:
        archive = _download(package, source.release, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with tarfile.open(archive) as opened:
            wanted = [
                each
                for each in opened.getmembers()
                if each.name.split("/")[1:2] and each.name.split("/")[1] in source.kept
            ]
            opened.extractall(unpacked, wanted, filter="data")
        os.replace(next(unpacked.iterdir()), sources(package))


def _download(package: str, release: str, scratch: Path) -> Path:
    """The archive of a source package, which apt has checked by the keys of the system."""
    listed = output(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"])
    if listed is None:
        raise SetupError("apt-get is not here")
    places = dict.fromkeys(tuple(line.split()) for line in listed.splitlines() if len(line.split()) == 2)
    failures = []
    for site, own in places:
        if "debian" not in site or "security" in site or "-" in own:
            continue
        into = scratch / own
        # Another release's keys may be newer than the system's.
        trusted = "[trusted=yes] " if release else ""
        flags = apt_source.private(into, f"deb-src {trusted}{site} {release or own} main", {})
        try:
            run(["apt-get", "-q", *flags, "update"], what="reading the package lists")
            run(
                ["apt-get", "-q", *flags, "source", "--download-only", "--tar-only", package],
                what=f"downloading {package}",
                cwd=into,
            )
        except SetupError as error:
            failures.append(f"{own}: {error}")
            continue
        if found := list(into.glob(f"{package}_*.orig.tar.*")):
            return found[0]
    raise SetupError("; ".join(failures) or "apt has no Debian mirror")


if __name__ == "__main__":
    sys.exit(main())
