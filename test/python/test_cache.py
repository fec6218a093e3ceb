# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The disk cache and the knobs: what is found again, what is a miss, and which folders are not touched."""

from __future__ import annotations

import os
import resource
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright import knobs
from tilewright.errors import TilewrightError
from tilewright.runtime.cache import CacheError, CacheWarning, KernelCache

KEY = {"spec": "4x4x4 f32", "target": "host"}
OBJECT = bytes(range(256)) * 200


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    made = KernelCache(tmp_path / "kernels", limit_bytes=1 << 20)
    assert made.problem() is None
    return made


def entries(cache: KernelCache) -> list[Path]:
    return sorted(cache.folder.glob("*.kernel"))


def test_what_was_stored_is_found(cache):
    assert cache.get(KEY) is None
    assert cache.put(KEY, OBJECT, {"schedule": "packed", "seconds": {"llvm": 0.5}})
    found = cache.get(KEY)
    assert found is not None
    assert found.object == OBJECT
    assert found.header == {"schedule": "packed", "seconds": {"llvm": 0.5}}


def test_the_order_of_the_key_does_not_matter(cache):
    cache.put(KEY, OBJECT)
    assert cache.get(dict(reversed(KEY.items()))) is not None


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"spec": "4x4x4 f32"},
        {**KEY, "more": ""},
        {**KEY, "target": "Host"},
        {"spec": "host", "target": "4x4x4 f32"},
        {"spec": '4x4x4 f32"],["target","host', "target": "host"},
    ],
)
def test_another_key_is_a_miss(cache, other):
    cache.put(KEY, OBJECT)
    assert cache.get(other) is None


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.binary(max_size=100))
def test_any_text_is_a_key(tmp_path_factory, key, object_):
    cache = KernelCache(tmp_path_factory.getbasetemp(), limit_bytes=1 << 20)
    assert cache.put(key, object_)
    found = cache.get(key)
    assert found is not None
    assert found.object == object_


def test_a_key_is_made_of_texts(cache):
    with pytest.raises(TypeError, match="'m': 4"):
        cache.get({"m": 4})


def test_an_entry_is_replaced(cache):
    cache.put(KEY, OBJECT)
    cache.put(KEY, b"another")
    found = cache.get(KEY)
    assert found is not None
    assert found.object == b"another"
    assert len(entries(cache)) == 1


def test_nobody_else_can_read_or_write(cache):
    before = os.umask(0)
    try:
        cache.put(KEY, OBJECT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries(cache)[0].stat().st_mode) == 0o600


def test_damage_is_a_miss_and_replaced(cache):
    cache.put(KEY, OBJECT, {"a": 1})
    (file,) = entries(cache)
    sound = file.read_bytes()
    places = [*range(120), len(sound) // 2, len(sound) - 33, len(sound) - 1]
    for damaged in [
        b"",
        sound[:-1],
        sound[: len(sound) // 2],
        sound + b"x",
        os.urandom(len(sound)),
        *(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :] for place in places),
    ]:
        file.write_bytes(damaged)
        assert cache.get(KEY) is None
    assert cache.put(KEY, OBJECT)
    assert cache.get(KEY) is not None


def test_the_entry_of_another_key_is_a_miss(cache):
    cache.put(KEY, OBJECT)
    (mine,) = entries(cache)
    cache.put({}, b"foreign")
    (foreign,) = set(entries(cache)) - {mine}
    foreign.replace(mine)
    assert cache.get(KEY) is None


def test_only_plain_files_of_the_user_are_read(cache, tmp_path):
    cache.put(KEY, OBJECT)
    (file,) = entries(cache)
    file.chmod(0o660)
    assert cache.get(KEY) is None
    file.chmod(0o600)
    assert cache.get(KEY) is not None
    moved = file.rename(tmp_path / "elsewhere")
    file.symlink_to(moved)
    assert cache.get(KEY) is None
    file.unlink()
    os.mkfifo(file)
    assert cache.get(KEY) is None
    file.unlink()
    file.mkdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, OBJECT)
    assert [each.name for each in cache.folder.iterdir()] == [file.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_others_is_not_used(cache):
    cache.put(KEY, OBJECT)
    os.chown(entries(cache)[0], 12345, -1)
    assert cache.get(KEY) is None
    assert cache.put(KEY, OBJECT)
    assert cache.get(KEY) is not None
    os.chown(cache.folder, 12345, -1)
    assert cache.problem() == "it belongs to user 12345, not to you (user 0)"
    assert cache.get(KEY) is None
    assert not cache.put(KEY, OBJECT)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_is_not_used(cache, mode):
    cache.put(KEY, OBJECT)
    cache.folder.chmod(mode)
    assert cache.problem() == f"others may write there (mode {mode:o})"
    assert cache.get(KEY) is None
    assert not cache.put(KEY, OBJECT)


def test_a_folder_that_goes_away_is_a_miss(cache):
    cache.folder.rmdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, OBJECT)


def test_the_size_is_bounded_and_the_oldest_go_first(cache):
    names = [str(index) for index in range(20)]
    for index, name in enumerate(names):
        assert cache.put({"name": name}, OBJECT)
        (newest,) = (file for file in entries(cache) if time.time() - file.stat().st_mtime < 1000)
        os.utime(newest, (0, index + 1))
    assert len(entries(cache)) == 20
    assert cache.get({"name": "0"}) is not None  # used again just now
    assert cache.put({"name": "20"}, OBJECT)
    assert sum(file.stat().st_size for file in entries(cache)) <= cache.limit_bytes
    assert cache.get({"name": "20"}) is not None
    assert cache.get({"name": "0"}) is not None
    gone = [cache.get({"name": name}) is None for name in names[1:]]
    assert gone == sorted(gone, reverse=True)
    assert 2 <= sum(gone) <= 4


def test_what_exceeds_the_limit_is_not_stored(tmp_path):
    cache = KernelCache(tmp_path, limit_bytes=1000)
    assert not cache.put(KEY, OBJECT)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(cache):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        assert not cache.put(KEY, OBJECT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(cache.folder.iterdir()) == []


def test_leftovers_of_dead_writers_go(cache):
    old, fresh = cache.folder / ".writing-1-aa", cache.folder / ".writing-2-bb"
    for leftover in (old, fresh):
        leftover.write_bytes(b"half")
    os.utime(old, (0, time.time() - 7200))
    cache.put(KEY, OBJECT)
    assert not old.exists()
    assert fresh.exists()


def test_reading_is_quick(cache):
    cache.put(KEY, OBJECT * 4)
    times = []
    for _ in range(20):
        start = time.process_time()
        assert cache.get(KEY) is not None
        times.append(time.process_time() - start)
    assert min(times) < 2e-3


# The knobs.


def test_the_default_folder():
    assert knobs.load({"HOME": "/h"}).cache_dir == Path("/h/.cache/tilewright/kernels")
    assert knobs.load({"HOME": "/h", "XDG_CACHE_HOME": "/c"}).cache_dir == Path("/c/tilewright/kernels")
    assert knobs.load({"HOME": "/h", "XDG_CACHE_HOME": "relative"}).cache_dir == Path("/h/.cache/tilewright/kernels")
    assert knobs.load({}) == knobs.Knobs(cache_dir=None)


def test_every_knob():
    loaded = knobs.load(
        {
            "TILEWRIGHT_CACHE_DIR": "here",
            "TILEWRIGHT_CACHE_LIMIT_MB": "7",
            "TILEWRIGHT_NO_CACHE": "Yes",
            "TILEWRIGHT_COMPILE_TIMEOUT_S": "0.5",
        }
    )
    assert loaded == knobs.Knobs(Path.cwd() / "here", True, 7, True, 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TILEWRIGHT_CACHE_LIMIT_MB", "much"),
        ("TILEWRIGHT_CACHE_LIMIT_MB", "-1"),
        ("TILEWRIGHT_CACHE_LIMIT_MB", "1.5"),
        ("TILEWRIGHT_NO_CACHE", "perhaps"),
        ("TILEWRIGHT_COMPILE_TIMEOUT_S", "nan"),
        ("TILEWRIGHT_COMPILE_TIMEOUT_S", "0"),
    ],
)
def test_a_wrong_knob_is_named(name, value):
    with pytest.raises(TilewrightError, match=f"{name}: '{value}'; expected "):
        knobs.load({name: value})


def test_the_cache_that_knobs_ask_for(tmp_path):
    made = KernelCache.from_knobs(knobs.Knobs(tmp_path / "a" / "b", cache_limit_mb=3))
    assert made is not None
    assert made == KernelCache(tmp_path / "a" / "b", 3 << 20)
    assert made.folder.is_dir()
    assert KernelCache.from_knobs(knobs.Knobs(tmp_path, no_cache=True)) is None
    assert KernelCache.from_knobs(knobs.Knobs(None)) is None


@pytest.mark.parametrize("reason", ["a file stands there", "others may write there"])
def test_a_named_folder_that_cannot_be_used_is_an_error(tmp_path, reason):
    folder = tmp_path / "kernels"
    if reason == "others may write there":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.write_text("")
    with pytest.raises(CacheError, match=f"TILEWRIGHT_CACHE_DIR: cannot use {folder}: .* Name another folder"):
        KernelCache.from_knobs(knobs.Knobs(folder, cache_dir_named=True))
    with pytest.warns(CacheWarning, match=f"compiling without a cache: cannot use {folder}"):
        assert KernelCache.from_knobs(knobs.Knobs(folder)) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_reported(cache):
    cache.folder.chmod(0o500)
    assert cache.problem() == "it is not writable"
