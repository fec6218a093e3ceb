# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs the extension for VS Code, editors/vscode, as a .vsix: a zip with two lists of its own. `make vsix` calls it.

The format is that of the Open Packaging Conventions, ECMA-376 part 2, with VS Code's manifest; no npm and no build step.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from common import ROOT, say

SOURCE = ROOT / "editors" / "vscode"
FILES = (
    "package.json",
    "extension.js",
    "server.js",
    "language-configuration.json",
    "syntaxes/mlir.json",
    "README.md",
)
"""What the extension has, beside the license."""
_TYPES = {".json": "application/json", ".js": "application/javascript", ".md": "text/markdown", ".txt": "text/plain"}
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that equal sources give equal bytes."""


def manifest(about: dict[str, str]) -> str:
    """The package's manifest, which VS Code reads before package.json."""
    identity = (
        f"Id={quoteattr(about['name'])} Version={quoteattr(about['version'])} Publisher={quoteattr(about['publisher'])}"
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" {identity}/>
    <DisplayName>{escape(about["displayName"])}</DisplayName>
    <Description>{escape(about["description"])}</Description>
    <License>extension/LICENSE.txt</License>
    <Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value={quoteattr(about["engine"])}/></Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def types() -> str:
    """The types of files in the archive."""
    known = _TYPES | {".vsixmanifest": "text/xml"}
    rows = "".join(f'<Default Extension="{suffix}" ContentType="{kind}"/>' for suffix, kind in known.items())
    namespace = "http://schemas.openxmlformats.org/package/2006/content-types"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="{namespace}">{rows}</Types>\n'


def pack(folder: Path) -> Path:
    """Writes the .vsix to a folder, and returns its path."""
    package = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))
    about = {**package, "engine": package["engines"]["vscode"]}
    files = {f"extension/{name}": (SOURCE / name).read_bytes() for name in FILES}
    files["extension/LICENSE.txt"] = (ROOT / "LICENSE").read_bytes()
    files["extension.vsixmanifest"] = manifest(about).encode()
    files["[Content_Types].xml"] = types().encode()
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{package['name']}-{package['version']}.vsix"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
    return made


def main() -> int:
    """Packs it into dist/."""
    say(f"wrote {pack(ROOT / 'dist').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
