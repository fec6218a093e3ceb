# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Downloads the archive of Debian's source package of LLVM with a private apt configuration.

The system's own apt is left as it is: its lists need not have source packages, and its release may not have the archive.
The mirror is the one that the system uses.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from common import LLVM_MAJOR, LLVM_VERSION, SetupError, output, run

SUITES = ("sid", "trixie", "forky")
PACKAGE = f"llvm-toolchain-{LLVM_MAJOR}"
ARCHIVE_SHA256 = {"22.1.8": "b49b9277aef97616320b2da259e1f8174c65b0ce2fbe2e8629644a97693402fe"}
"""By version: the sum of the .orig.tar.xz."""


def download(scratch: Path) -> Path:
    """The checked source archive, in `scratch`.

    Raises:
        SetupError: There is no apt, or no suite of any mirror has the archive.
    """
    sites = output(["apt-get", "indextargets", "--format", "$(SITE)"])
    if sites is None:
        raise SetupError("apt-get is not here")
    # A security archive has only its own suites.
    mirrors = [site for site in dict.fromkeys(sites.split()) if "debian" in site and "security" not in site]
    failures = [] if mirrors else ["apt has no Debian mirror"]
    for mirror in mirrors:
        for suite in SUITES:
            try:
                return _download_from(mirror, suite, scratch / suite)
            except SetupError as error:
                failures.append(f"{suite}: {error}")
    raise SetupError("; ".join(failures))


def _download_from(mirror: str, suite: str, scratch: Path) -> Path:
    """Tries every revision of the wanted version in one suite."""
    # Not authenticated by apt, whose keys may be older than the suite: the sum below decides.
    flags = private(scratch, f"deb-src [trusted=yes] {mirror} {suite} main", {})
    run(["apt-get", "-q", *flags, "update"], what=f"reading the package lists of {suite}")
    listed = output(["apt-cache", *flags, "showsrc", PACKAGE]) or ""
    revisions = re.findall(rf"^Version: ((?:\d+:)?{re.escape(LLVM_VERSION)}-\S+)$", listed, re.MULTILINE)
    if not revisions:
        raise SetupError(f"no {PACKAGE} {LLVM_VERSION}")
    source = scratch / "source"
    source.mkdir(exist_ok=True)
    for revision in dict.fromkeys(revisions):
        command = ["apt-get", "-q", *flags, "source", "--download-only", "--tar-only", f"{PACKAGE}={revision}"]
        try:
            run(command, what=f"downloading {PACKAGE} {revision}", cwd=source)
        except SetupError:
            continue
        archives = list(source.glob("*.orig.tar.xz"))
        if len(archives) == 1 and _sha256(archives[0]) == ARCHIVE_SHA256.get(LLVM_VERSION):
            return archives[0]
        for archive in source.iterdir():
            archive.unlink()
    raise SetupError(f"no revision of {PACKAGE} {LLVM_VERSION} downloads with the expected sum")


def private(scratch: Path, source: str, further: Mapping[str, str]) -> list[str]:
    """The options with which apt reads one line of sources, and leaves the system's lists alone; `further` ones go with them."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    (scratch / "sources.list").write_text(f"{source}\n", encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        **further,
    }
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"  # apt's own user cannot write below our cache
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _sha256(path: Path) -> str:
    """The sum of a file's content."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
