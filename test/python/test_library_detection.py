# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a library finds of a processor at run time: features, and whether Linux permits their use.

The functions by which detection asks the processor and Linux are replaced, so that each answer is tried on any machine.
Where Linux is asked for real, a filter of system calls answers.
"""

import ctypes
import shutil
from collections.abc import Mapping
from dataclasses import replace

import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.emit import code, shared
from tilewright.errors import TargetError
from tilewright.libraries import detection
from tilewright.libraries.detection.base import AUXILIARY
from tilewright.targets.registry import FAMILIES

LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
pytestmark = pytest.mark.skipif(LINKER is None, reason="no lld")
EVERYTHING = {
    "%registers @cpuid": "{\n  ret %registers { i32 -1, i32 -1, i32 -1, i32 -1 }\n}\n",
    "i64 @saved": "{\n  ret i64 -1\n}\n",
}
"""A processor of x86-64 that says that it has every feature, all of whose registers Linux saves."""
TILES = {"amx-tile", "amx-int8", "amx-bf16"}


def built(
    file, family: str, architecture: str, bits: Mapping[str, int], fakes: Mapping[str, str], more: str = ""
) -> None:
    """A library for this machine with the function `detect` of a family, in which others are replaced, and `more` are defined."""
    text = detection.text(family, architecture, bits).replace(AUXILIARY, more)
    for name, fake in fakes.items():
        start = text.index(f"define internal {name}(")
        body, end = text.index("{\n", start), text.index("\n}\n", start) + 3
        text = text[:body] + fake + text[end:]
    text = text.replace("define internal i64 @detect", "define i64 @detect") + "@asked = global i64 0\n"
    target = tw.targets.get("x86-64")
    file.write_bytes(shared.link(code.object_file(code.optimize(text, target), target)))


def found(library: ctypes.CDLL, bits: Mapping[str, int], wanted: str) -> set[str]:
    """The features that it finds, where one is wanted."""
    library.detect.restype = ctypes.c_uint64
    word = library.detect(ctypes.c_int64(1 << bits[wanted]))
    return {feature for feature, bit in bits.items() if word >> bit & 1}


def test_every_feature_of_every_row_can_be_detected():
    for family in FAMILIES:
        detection.positions(family.rows)
        known = {feature for features in family.flags.values() for feature in features}
        assert known <= set(detection.of(family.name).where), family.name
    strange = tw.targets.get("x86-64")
    with pytest.raises(TargetError, match="mine needs avx10; expected features that can be detected"):
        detection.positions([replace(strange, name="mine", features=strange.features | {"avx10"})])


@pytest.mark.parametrize(
    ("granted", "read_back", "wanted", "asked", "tiles"),
    [
        (0, 1 << 18, "amx-int8", 2, True),
        (-1, 0, "amx-int8", 2, False),
        (0, 0, "amx-int8", 2, False),
        (-1, 0, "sse2", 0, True),
    ],
)
def test_tiles_are_asked_for_and_read_back(tmp_path, granted, read_back, wanted, asked, tiles):
    """On a processor that says that it has everything; where tiles are not wanted, what it says of them does not matter."""
    bits = detection.positions([tw.targets.get("sapphirerapids")])
    linux = f"""{{
  %count = load i64, ptr @asked
  %more = add i64 %count, 1
  store i64 %more, ptr @asked
  %reads = icmp eq i64 %a, {0x1022}
  br i1 %reads, label %read, label %done
read:
  %place = inttoptr i64 %b to ptr
  store i64 {read_back}, ptr %place
  br label %done
done:
  %r = select i1 %reads, i64 0, i64 {granted}
  ret i64 %r
}}
"""
    built(tmp_path / "detect.so", "x86", "x86_64", bits, EVERYTHING | {"i64 @system": linux})
    library = ctypes.CDLL(str(tmp_path / "detect.so"))
    assert found(library, bits, wanted) == set(bits) - (set() if tiles else TILES)
    assert ctypes.c_int64.in_dll(library, "asked").value == asked


FILTERED = """
    import ctypes, struct
    load, equal, answer = 0x20, 0x15, 0x06
    # struct seccomp_data: the number of the call is at 0, the low half of its first argument at 16. ERRNO is 0x50000, ALLOW 0x7fff0000.
    rules = [(load, 0, 0, 0), (equal, 0, 3, 158), (load, 0, 0, 16), (equal, 0, 1, 0x1023), (answer, 0, 0, 0x50000 | {errno}),
             (answer, 0, 0, 0x7FFF0000)]
    text = b"".join(struct.pack("HBBI", *each) for each in rules)
    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("rules", ctypes.c_char_p))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    if libc.prctl(22, 2, ctypes.byref(Program(len(rules), text)), 0, 0) != 0:
        print("no filters")
        raise SystemExit
    part = ctypes.c_long(18)
    print(libc.syscall(158, 0x1023, 18), end=" ")
    library = ctypes.CDLL({file!r})
    library.detect.restype = ctypes.c_uint64
    print(library.detect(ctypes.c_int64({wanted})))
"""


@pytest.mark.skipif("x86_64" not in tw.targets.resolve("host").triple, reason="not a processor of x86-64")
@pytest.mark.parametrize("errno", [1, 0])
def test_a_filter_that_refuses_tiles_leaves_all_else(tmp_path, errno):
    """A sandbox's filter of system calls, which refuses the request, or says without a word to Linux that it was granted.

    Detection makes the calls itself and reads back what Linux says. Without AMX here, Linux would refuse too: what is shown is that
    a filter's answer, also a false one, never gets tiles used.
    """
    bits = detection.positions([tw.targets.get("sapphirerapids")])
    built(tmp_path / "detect.so", "x86", "x86_64", bits, EVERYTHING)
    wanted = 1 << bits["amx-int8"]
    answer = in_new_process(FILTERED.format(errno=errno, file=str(tmp_path / "detect.so"), wanted=wanted)).split()
    if answer == ["no", "filters"]:
        pytest.skip("this process may not filter its system calls")
    assert int(answer[0]) == (-1 if errno else 0)
    assert {feature for feature, bit in bits.items() if int(answer[1]) >> bit & 1} == set(bits) - TILES


@pytest.mark.parametrize(
    ("knows", "hwcap", "length", "expected"),
    [
        (True, 1 << 21, 3, {"v", "zba", "zvfh", "zvl128b", "zvl256b"}),
        (True, 1 << 21, 1, {"v", "zba", "zvfh", "zvl128b"}),
        (False, 1 << 21, 3, {"v", "zvl128b", "zvl256b"}),  # Linux before 6.4
        (True, 0, 0, {"zba", "zvfh"}),
    ],
)
def test_what_linux_says_of_riscv(tmp_path, knows, hwcap, length, expected):
    """Linux answers one pair of hwprobe, key 4, with Zba and Zvfh; or does not know the call. QEMU 7.2 does not know it either."""
    bits = {feature: number for number, feature in enumerate(sorted({"v", "zba", "zbb", "zvfh", "zvl128b", "zvl256b"}))}
    linux = f"""{{
  %pair = inttoptr i64 %a to ptr
  %key = load i64, ptr %pair
  %right.key = icmp eq i64 %key, 4
  %right.call = icmp eq i64 %number, 258
  %right.count = icmp eq i64 %b, 1
  %both = and i1 %right.key, %right.call
  %all = and i1 %both, %right.count
  %told = and i1 %all, {str(knows).lower()}
  br i1 %told, label %tell, label %unknown
tell:
  %value = getelementptr i64, ptr %pair, i64 1
  store i64 {1 << 3 | 1 << 30}, ptr %value
  ret i64 0
unknown:
  ret i64 -38
}}
"""
    fakes = {"i64 @system": linux, "i64 @length": f"{{\n  ret i64 {length}\n}}\n"}
    auxiliary = f"define internal i64 @getauxval(i64 %type) {{\n  ret i64 {hwcap}\n}}\n"
    built(tmp_path / "detect.so", "riscv", "riscv64", bits, fakes, auxiliary)
    assert found(ctypes.CDLL(str(tmp_path / "detect.so")), bits, "v") == expected
