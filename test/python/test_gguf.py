# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tw.read_gguf`: tensors of small files, products by their weights, and refusals of files that are cut off, changed or hostile."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw

U32, F32, STRING, ARRAY = 4, 6, 8, 9
RNG = np.random.default_rng(3)


def text(value: str) -> bytes:
    """A string as files have it."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(
    tensors: Mapping[str, tuple[int, Sequence[int], bytes]],
    pairs: Sequence[bytes] = (),
    *,
    alignment: int = 32,
    version: int = 3,
) -> bytes:
    """A file: of each tensor ggml's number of its type, its shape and its bytes."""
    head, data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs), b""
    for name, (kind, shape, content) in tensors.items():
        data += bytes(-len(data) % alignment)
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", each) for each in reversed(shape)) + struct.pack("<IQ", kind, len(data))
        data += content
    return head + bytes(-len(head) % alignment) + data


def pair(key: str, kind: int, content: bytes) -> bytes:
    """A key and its value."""
    return text(key) + struct.pack("<I", kind) + content


def blocks(n: int, k: int, size: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Scales, what follows each, and both as a file has them."""
    scales = RNG.uniform(0.01, 0.1, (n, k // 32)).astype(np.float16)
    codes = RNG.integers(0, 256, (n, k // 32, size), np.uint8)
    return scales, codes, np.concatenate([scales.view(np.uint8).reshape(n, k // 32, 2), codes], -1).tobytes()


N, K = 24, 96
Q4, Q8 = blocks(N, K, 16), blocks(N, K, 32)
PLAIN = RNG.standard_normal((3, 5)).astype(np.float32)
PAIRS = [
    pair("general.name", STRING, text("smallest")),
    pair("layers", U32, struct.pack("<I", 7)),
    pair("tokens", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("ß")),
    pair("scores", ARRAY, struct.pack("<IQff", F32, 2, 0.5, 1.5)),
]
WHOLE = gguf(
    {
        "q4": (2, (N, K), Q4[2]),
        "q8": (8, (N, K), Q8[2]),
        "q2": (10, (1, 256), b""),
        "plain": (0, (3, 5), PLAIN.tobytes()),
    },
    PAIRS,
)


def written(folder: Path, content: bytes) -> Path:
    """The file."""
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


def test_what_is_read(tmp_path):
    found = tw.read_gguf(written(tmp_path, WHOLE))
    assert (found.metadata["general.name"], found.metadata["layers"], found.metadata["tokens"]) == (
        "smallest",
        7,
        ["a", "ß"],
    )
    assert found.metadata["scores"].tolist() == [0.5, 1.5]
    assert {name: (each.type, each.shape) for name, each in found.tensors.items()} == {
        "q4": ("Q4_0", (N, K)),
        "q8": ("Q8_0", (N, K)),
        "plain": ("F32", (3, 5)),
    }
    assert dict(found.unknown) == {"q2": 10}
    plain = found.tensors["plain"].array()
    assert np.array_equal(plain, PLAIN)
    assert not plain.flags.owndata
    assert not plain.flags.writeable


def test_quantized_weights_are_multiplied(tmp_path):
    """The definition of both formats, block by block; a kernel takes what `quantized` makes."""
    found = tw.read_gguf(written(tmp_path, WHOLE)).tensors
    scales, codes, _ = Q4
    q4 = np.concatenate([codes & 15, codes >> 4], -1).astype(np.float32) - 8
    q8 = Q8[1].view(np.int8).astype(np.float32)
    for name, expected in (("q4", q4 * scales[..., None]), ("q8", q8 * Q8[0][..., None].astype(np.float32))):
        weights = found[name].quantized()
        assert np.array_equal(weights.floats(), expected.reshape(N, K))
        assert np.array_equal(found[name].floats(), weights.floats())
        entry = tw.dequantize("gn", group=32, scale_type="f16")
        spec = tw.MatmulSpec(3, N, K, "f32", weights.type, layout="nt", prologue_b=(entry,))
        x = RNG.standard_normal((3, K)).astype(np.float32)
        operands = (x, *weights.operands)
        c = tw.compile(spec)(*operands)
        assert (np.abs(c - tw.reference(spec, *operands)) <= tw.error_bound(spec, *operands)).all()


def super_block(name: str) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A row of two blocks of 256 elements, one element after the other by the format's definition, and the sizes that are rounded."""
    content, expected, sizes = b"", [], []
    for number in range(2):
        d, e = (np.float16(RNG.uniform(0.001, 0.1)) for _ in range(2))
        q = RNG.integers(0, 16 if name == "Q4_K" else 64, 256)
        if name == "Q4_K":
            s, m = RNG.integers(0, 64, (2, 8))
            s[number], m[2 + number] = 0, 0  # All elements of a group are -m; none has anything less.
            s[5], m[5] = 0, 0
            packed = [s[i] | s[i + 4] >> 4 << 6 for i in range(4)] + [m[i] | m[i + 4] >> 4 << 6 for i in range(4)]
            packed += [s[i + 4] & 15 | (m[i + 4] & 15) << 4 for i in range(4)]
            codes = [q[64 * i + j] | q[64 * i + 32 + j] << 4 for i in range(4) for j in range(32)]
            content += d.tobytes() + e.tobytes() + bytes(map(int, packed + codes))
            for i in range(256):
                first, less = float(d) * s[i // 32] * q[i], float(e) * m[i // 32]
                expected.append(first - less)
                sizes.append(first + less)
            continue
        s = RNG.integers(-128, 128, 16).astype(np.int8)
        low, high = [0] * 128, [0] * 64
        for i in range(256):
            half, place, lane = i // 128, i % 128 // 32, i % 32
            low[half * 64 + place % 2 * 32 + lane] |= int(q[i] & 15) << 4 * (place // 2)
            high[half * 32 + lane] |= int(q[i] >> 4) << 2 * place
            expected.append(float(d) * float(s[i // 16]) * (int(q[i]) - 32))
            sizes.append(abs(expected[-1]))
        content += bytes(low + high) + s.tobytes() + d.tobytes()
    return content, np.array(expected), np.array(sizes)


@pytest.mark.parametrize(("name", "number", "group"), [("Q4_K", 12, 32), ("Q6_K", 14, 16)])
def test_scales_of_scales(tmp_path, name, number, group):
    rows = [super_block(name) for _ in range(5)]
    content = gguf({"w": (number, (5, 512), b"".join(each[0] for each in rows))})
    tensor = tw.read_gguf(written(tmp_path, content)).tensors["w"]
    weights = tensor.quantized()
    expected, sizes = (np.stack([each[place] for each in rows]) for place in (1, 2))
    assert (tensor.type, weights.group) == (name, group)
    # m / s, the difference from q and the product with s are rounded, each by half a unit of f32 at most.
    assert (np.abs(weights.floats() - expected) <= 4 * 2.0**-24 * sizes).all()
    zero = "f32" if weights.zero_points is not None else 0
    entry = tw.dequantize("gn", zero, weights.group)
    spec = tw.MatmulSpec(1, 5, 512, "f32", weights.type, layout="nt", prologue_b=(entry,))
    operands = (RNG.standard_normal((1, 512)).astype(np.float32), *weights.operands)
    c = tw.compile(spec)(*operands)
    assert (np.abs(c - tw.reference(spec, *operands)) <= tw.error_bound(spec, *operands)).all()
    own = np.abs(operands[0]).astype(np.float64) @ (4 * 2.0**-24 * sizes).T
    exact = operands[0].astype(np.float64) @ expected.T
    assert (np.abs(c - exact) <= tw.error_bound(spec, *operands) + own).all()


def test_kinds_are_not_mixed_up(tmp_path):
    found = tw.read_gguf(written(tmp_path, WHOLE)).tensors
    with pytest.raises(tw.SpecError, match=r"Call quantized\(\)"):
        found["q4"].array()
    with pytest.raises(tw.SpecError, match=r"Call array\(\)"):
        found["plain"].quantized()


def test_files_that_are_cut_off(tmp_path):
    for size in range(len(WHOLE)):
        if size < 200 or size % 37 == 0 or size > len(WHOLE) - 3:
            with pytest.raises(tw.TilewrightError):
                tw.read_gguf(written(tmp_path, WHOLE[:size]))


def test_changed_files_are_read_or_refused(tmp_path):
    """No change makes anything but an error of ours, and what is read can be used."""
    head = WHOLE.index(Q4[2][:8])
    refused = 0
    for trial in range(400):
        changed = bytearray(WHOLE)
        for at in RNG.integers(4, head, 1 + trial % 3):
            changed[at] = RNG.choice([0, 1, 0x7F, 0x80, 0xFF, int(RNG.integers(256))])
        try:
            found = tw.read_gguf(written(tmp_path, bytes(changed)))
            for each in found.tensors.values():
                each.floats() if len(each.shape) == 2 or each.type in ("F32", "F16", "BF16") else repr(each)
        except tw.TilewrightError:
            refused += 1
    assert 100 < refused < 400


MANY = 2**60
HOSTILE: dict[str, tuple[Any, str]] = {
    "other bytes": (b"GGML" + WHOLE[4:], "begins with other bytes"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + WHOLE[8:], "version"),
    "many tensors": (b"GGUF" + struct.pack("<IQQ", 3, MANY, 0), "tensors"),
    "many keys": (b"GGUF" + struct.pack("<IQQ", 3, 0, MANY), "keys"),
    "a long string": (gguf({}, [struct.pack("<Q", MANY)]), "has 1 keys|ends"),
    "a long array": (gguf({}, [pair("a", ARRAY, struct.pack("<IQ", U32, MANY))]), "ends"),
    "many strings": (gguf({}, [pair("a", ARRAY, struct.pack("<IQ", STRING, MANY))]), "elements of an array"),
    "arrays in arrays": (gguf({}, [pair("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 50)]), "has an array of type 9"),
    "an unknown kind": (gguf({}, [pair("a", 13, bytes(16))]), "type 13"),
    "no text": (gguf({}, [struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<II", U32, 1)]), "UTF-8"),
    "a key twice": (gguf({}, [PAIRS[1], PAIRS[1]]), "twice"),
    "no alignment": (gguf({}, [pair("general.alignment", U32, struct.pack("<I", 0))]), "power of two"),
    "no dimensions": (gguf({"a": (0, (), b"")}), "0 dimensions"),
    "five dimensions": (gguf({"a": (0, (1,) * 5, bytes(4))}), "5 dimensions"),
    "extents that overflow": (gguf({"a": (0, (2**63, 2), b"")}), "extents"),
    "a row of half a block": (gguf({"a": (2, (1, 16), bytes(9))}), "whole blocks"),
    "a tensor beyond the end": (gguf({"a": (0, (64,), bytes(8))}), "ends within"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(tmp_path, case):
    content, why = HOSTILE[case]
    with pytest.raises(tw.TilewrightError, match=why) as caught:
        tw.read_gguf(written(tmp_path, content))
    assert "model.gguf" in str(caught.value)


def test_no_file(tmp_path):
    for path, why in ((tmp_path, "directory"), (tmp_path / "none", "No such file"), (written(tmp_path, b""), "empty")):
        with pytest.raises(tw.TilewrightError, match=why):
            tw.read_gguf(path)
