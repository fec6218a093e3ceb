# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links the part of LLVM and MLIR that the package uses, for its wheel.

LLVM's shared libraries have every back end, and need libraries for what the package never does: Z3, libxml2 with ICU, libedit, libffi. Here
their static archives are linked to one library that defines what the package's own files need, and has nothing that this does not
reach. It takes the place of libLLVM; that of libMLIR is an empty library that needs it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from common import BUILD, LLVM_VERSION, PACKAGE, ROOT, SetupError, output, run

BACK_ENDS = ("X86", "AArch64", "RISCV", "NVPTX", "AMDGPU", "SPIRV")
"""LLVM's back ends for the families of targets in python/tilewright/targets."""
_PARTS = ("AsmParser", "AsmPrinter", "CodeGen", "Desc", "Disassembler", "Info", "TargetMCA", "Utils")
"""The archives of a back end."""
_INITIALIZERS = ("Target", "TargetInfo", "TargetMC", "AsmPrinter", "AsmParser", "Disassembler")
_CODE_GENERATOR = re.compile(r"libLLVM(\w+)CodeGen\.a")
OLDER = ROOT / "native" / "runtime" / "OlderLibraries.cpp"
"""What newer C and C++ libraries have, for machines with older ones."""
_RELEASE = ".".join(LLVM_VERSION.split(".")[:2])
_ELF = b"\x7fELF"


def link(into: Path) -> bool:
    """Writes the libraries into a folder; whether LLVM was installed with archives to link.

    Raises:
        SetupError: The linker failed, or what it made lacks something that the package needs.
    """
    prefix = Path(json.loads((BUILD / "toolchain.json").read_text(encoding="utf-8"))["llvm_prefix"])
    tools = {name: prefix / "bin" / name for name in ("clang", "ld.lld", "llvm-nm", "llvm-config")}
    shared = [next((prefix / "lib").glob(f"lib{name}.so.{_RELEASE}*"), None) for name in ("LLVM", "MLIR")]
    archives = _archives(prefix)
    if None in shared or not archives or not all(tool.exists() for tool in tools.values()):
        return False
    llvm, mlir = (path for path in shared if path is not None)
    into.mkdir(parents=True)
    wanted = _names(tools["llvm-nm"], files_of_code(PACKAGE))
    version = _version(tools["llvm-nm"], llvm)
    exported = sorted(wanted & _names(tools["llvm-nm"], (llvm, mlir), "--defined-only"))
    others = _other_back_ends(archives)
    left_out = {f"libLLVM{end}{part}.a" for end in others for part in _PARTS}
    kept = [each for each in archives if each.name not in left_out and not each.name.startswith("libMLIRCAPI")]
    (into / "back_ends.c").write_text(
        "".join(f"void LLVMInitialize{end}{what}(void) {{}}\n" for end in others for what in _INITIALIZERS)
    )
    names = " ".join(f'"{each}";' for each in exported)
    (into / "exported").write_text(f"{version} {{ global: {names} local: *; }};\n")
    (into / "arguments").write_text("\n".join([*(f"-Wl,-u,{each}" for each in exported), *map(str, kept)]))
    clang = [tools["clang"], "-shared", "-fPIC", "-O2", f"--ld-path={tools['ld.lld']}", "-Wl,-s", "-Wl,-O2"]
    libraries = ["-lstdc++", "-lm", "-Wl,--as-needed", *_needed(llvm)]
    options = ["--gc-sections", "-Bsymbolic-functions", f"--version-script={into / 'exported'}", f"-soname={llvm.name}"]
    made = into / llvm.name
    sources = [into / "back_ends.c", OLDER, f"@{into / 'arguments'}"]
    run([*clang, *(f"-Wl,{each}" for each in options), "-o", made, *sources, *libraries], what="linking LLVM")
    empty = ["-Wl,--no-as-needed", f"-Wl,-soname={mlir.name}", "-nostdlib", "-o", into / mlir.name, made]
    run([*clang, *empty], what="linking MLIR")
    missing = set(exported) - _names(tools["llvm-nm"], (made,), "--defined-only")
    if missing:
        raise SetupError(f"{made} lacks {', '.join(sorted(missing)[:3])} and {len(missing)} symbols in all")
    return True


def files_of_code(folder: Path) -> list[Path]:
    """The files of machine code below a folder."""
    every = [
        path for path in folder.rglob("*") if path.is_file() and (path.suffix == ".so" or path.parent.name == "bin")
    ]
    return [path for path in every if path.open("rb").read(len(_ELF)) == _ELF]


def _names(nm: Path, files: Iterable[Path], *options: str) -> set[str]:
    """The names of the dynamic symbols of files, without versions."""
    listed = _printed([nm, "--dynamic", "--format=just-symbols", "--no-demangle", *options, *files])
    return {line.partition("@")[0] for line in listed.splitlines() if line and not line.endswith(":")}


def _archives(prefix: Path) -> list[Path]:
    """The archives of LLVM's libraries and MLIR's, without those of tools, whose options would clash; none where some are missing."""
    names = output([prefix / "bin" / "llvm-config", "--link-static", "--libfiles", "all"]) or ""
    own = [path for path in map(Path, names.split()) if path.name.startswith("libLLVM")]  # Polly may be elsewhere.
    found = own + sorted((prefix / "lib").glob("libMLIR*.a"))
    return found if own and all(path.exists() for path in found) else []


def _needed(library: Path) -> list[str]:
    """The files of what a library needs, but for the compiler's own library, which the linker takes from its archive."""
    files = [word for word in _printed(["ldd", library]).split() if word.startswith("/")]
    return [file for file in files if not Path(file).name.startswith("libgcc")]


def _version(nm: Path, library: Path) -> str:
    """The version that a library's symbols have."""
    listed = _printed([nm, "--dynamic", "--defined-only", "--format=just-symbols", library])
    return next(line.rpartition("@")[2] for line in listed.splitlines() if "@" in line)


def _other_back_ends(archives: Sequence[Path]) -> list[str]:
    """LLVM's back ends that the package does not use."""
    found = {match[1] for each in archives if (match := _CODE_GENERATOR.fullmatch(each.name))}
    names = {each.name for each in archives}
    return sorted(end for end in found if f"libLLVM{end}Info.a" in names and end not in BACK_ENDS)


def _printed(command: list[str | Path]) -> str:
    """The standard output of a command.

    Raises:
        SetupError: It failed.
    """
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
    return done.stdout
