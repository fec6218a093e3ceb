# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled objects on disk, shared by every process of one user.

One entry is one file, named after the digest of what it was made from. It is written beside its place and then moved
there, so that a reader sees a whole entry or none, and any number of processes may read and write at once without locks;
of two writers of one entry the later one wins. A checksum over the whole file makes everything damaged, cut short or
foreign a miss, and the next compilation puts a sound entry in its place.

Objects are code that will run in this process. Therefore the folder and each entry must belong to the user, and nobody else
may be allowed to write there: a folder that is not so is not used, and an entry that is not so is a miss. Nothing is ever
unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import struct
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.knobs import Knobs

_MAGIC = b"tilewright kernel cache\n"
_VERSION = 1
# Magic, format version, digest of the key, bytes of the header, bytes of the object. The header (JSON) and the object
# follow, and the SHA-256 of all of it.
_PREFIX = struct.Struct(f"<{len(_MAGIC)}sI32sIQ")
_CHECKSUM_BYTES = 32
_SUFFIX = ".kernel"
_TEMPORARY = ".writing-"
_STALE_S = 3600.0
"""A temporary file of this age was left by a writer that died."""
_KEEP = 0.9
"""How much of the limit stays in use when the oldest entries are dropped, so that not every new entry drops one."""


class CacheError(TilewrightError):
    """The folder that the user named for the cache cannot be used."""


class CacheWarning(UserWarning):
    """The default folder of the cache cannot be used, so that every process compiles anew."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the cache holds for one key.

    Attributes:
        object: The ELF object.
        header: What was stored with it.
    """

    object: bytes
    header: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of the cache.

    Attributes:
        name: Its name.
        size: Its bytes.
        used: When it was used last, in seconds as `time.time` counts them.
    """

    name: str
    size: int
    used: float


@dataclass(frozen=True, slots=True)
class KernelCache:
    """A folder of compiled objects. Reading and writing never raise: what goes wrong is a miss, or is not stored.

    Attributes:
        folder: Where the entries are.
        limit_bytes: The most that they may take together; those not used for longest go first.
    """

    folder: Path
    limit_bytes: int

    @classmethod
    def from_knobs(cls, knobs: Knobs) -> KernelCache | None:
        """The cache that `knobs` ask for, with its folder made; None for none.

        A folder that cannot be used is an error when the user named it, and otherwise a warning.

        Raises:
            CacheError: The user named a folder that cannot be made or written, belongs to someone else, or is writable for
                others.
        """
        if knobs.no_cache or knobs.cache_dir is None:
            return None
        cache = cls(knobs.cache_dir, knobs.cache_limit_mb << 20)
        problem = cache.problem()
        if problem is None:
            return cache
        if knobs.cache_dir_named:
            raise CacheError(
                f"cannot use {cache.folder}: {problem}",
                where="TILEWRIGHT_CACHE_DIR",
                expected="a folder of yours that only you can write",
                remedy="Name another folder, or set TILEWRIGHT_NO_CACHE=1",
            )
        warnings.warn(
            f"compiling without a cache: cannot use {cache.folder}: {problem}. Set TILEWRIGHT_CACHE_DIR to another folder, or "
            "TILEWRIGHT_NO_CACHE=1",
            CacheWarning,
            stacklevel=3,
        )
        return None

    def problem(self) -> str | None:
        """Makes the folder when it is missing; says why it cannot be used, or None when it can."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open_folder() as folder:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                    return "it is not writable"
        except OSError as e:
            return e.strerror or str(e)
        return None

    def get(self, key: Mapping[str, str]) -> Entry | None:
        """The entry of `key`, or None; marks it as used now.

        Args:
            key: Everything that decides the object, by name.
        """
        digest = _digest(key)
        try:
            with self._open_folder() as folder:
                data = self._read(folder, digest)
        except OSError:
            return None
        return None if data is None else _unpack(data, digest)

    def put(self, key: Mapping[str, str], object: bytes, header: Mapping[str, Any] | None = None) -> bool:
        """Stores an object under `key`, in place of what was there, and drops old entries beyond the limit.

        Args:
            key: Everything that decides the object, by name.
            object: The ELF object.
            header: Facts for people who look at the entry, and for the reader: JSON values by name.

        Returns:
            Whether it was stored: not when it exceeds the limit, the disk is full or the folder went away.
        """
        digest = _digest(key)
        data = _pack(digest, object, dict(header or {}))
        if len(data) > self.limit_bytes:
            return False
        try:
            with self._open_folder() as folder:
                _write(folder, digest.hex() + _SUFFIX, data)
                self._drop_old(folder)
        except OSError:
            return False
        return True

    def entries(self) -> list[Stored]:
        """What is stored, in the order in which it was used last.

        Raises:
            OSError: The folder is not there, or not safe.
        """
        with self._open_folder() as folder:
            return [Stored(name, size, used) for used, size, name in sorted(self._scan(folder))]

    def prune(self, limit_bytes: int) -> int:
        """Removes the entries used longest ago until all take no more than a limit; returns how many.

        Raises:
            OSError: The folder is not there, or not safe.
        """
        with self._open_folder() as folder:
            return _remove(folder, sorted(self._scan(folder)), limit_bytes)

    def damaged(self, *, remove: bool = False) -> list[str]:
        """The names of entries that a reader would not take: damaged, cut short, foreign, or writable for others.

        Args:
            remove: Whether they are removed too.

        Raises:
            OSError: The folder is not there, or not safe.
        """
        bad = []
        with self._open_folder() as folder:
            for _, _, name in self._scan(folder):
                if self._is_sound(folder, name):
                    continue
                bad.append(name)
                if remove:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
        return sorted(bad)

    def _is_sound(self, folder: int, name: str) -> bool:
        """Whether the file of that name is an entry that `get` would take; one that has gone is."""
        try:
            digest = bytes.fromhex(name.removesuffix(_SUFFIX))
            data = self._read(folder, digest)
            return data is not None and _unpack(data, digest) is not None
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[int]:
        """A descriptor of the folder, checked after it was opened, so that it cannot be exchanged in between.

        Raises:
            OSError: It is not there, or not safe.
        """
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(folder)
            if status.st_uid != os.geteuid():
                raise PermissionError(0, f"it belongs to user {status.st_uid}, not to you (user {os.geteuid()})")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(0, f"others may write there (mode {stat.S_IMODE(status.st_mode):o})")
            yield folder
        finally:
            os.close(folder)

    def _read(self, folder: int, digest: bytes) -> bytes | None:
        """The bytes of an entry that only the user can have written, or None."""
        name = digest.hex() + _SUFFIX
        # Without waiting: a foreign entry may be a pipe.
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with open(file, "rb") as stream:
            status = os.fstat(file)
            ours = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not ours or not stat.S_ISREG(status.st_mode) or status.st_size > self.limit_bytes:
                return None
            data = stream.read()
            with contextlib.suppress(OSError):
                os.utime(file)
            return data

    def _scan(self, folder: int) -> list[tuple[float, int, str]]:
        """When each entry was used last, its bytes and its name; removes what writers that died left behind."""
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        with os.scandir(folder) as files:
            for file in files:
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    status = file.stat(follow_symlinks=False)
                    if file.name.startswith(_TEMPORARY) and now - status.st_mtime > _STALE_S:
                        os.unlink(file.name, dir_fd=folder)
                    elif file.name.endswith(_SUFFIX) and stat.S_ISREG(status.st_mode):
                        entries.append((status.st_mtime, status.st_size, file.name))
        return entries

    def _drop_old(self, folder: int) -> None:
        """Removes what writers that died left behind, and the entries used longest ago while all exceed the limit."""
        entries = self._scan(folder)
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        # The last one was just used, here or in another process.
        *others, last = sorted(entries)
        _remove(folder, others, int(self.limit_bytes * _KEEP) - last[1])


def _remove(folder: int, entries: list[tuple[float, int, str]], limit_bytes: int) -> int:
    """Removes the first of some entries until they take no more than a limit; returns how many."""
    left = sum(size for _, size, _ in entries)
    for removed, (_, size, name) in enumerate(entries):
        if left <= limit_bytes:
            return removed
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        left -= size
    return len(entries)


def _digest(key: Mapping[str, str]) -> bytes:
    """SHA-256 of the parts in one canonical form: their order does not matter, and no two keys have the same text."""
    for name, part in key.items():
        if not isinstance(name, str) or not isinstance(part, str):
            raise TypeError(f"cache key {name!r}: {part!r} is not a pair of texts")
    text = json.dumps([_VERSION, sorted(key.items())], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def _pack(digest: bytes, object: bytes, header: dict[str, Any]) -> bytes:
    facts = json.dumps(header, sort_keys=True).encode()
    data = _PREFIX.pack(_MAGIC, _VERSION, digest, len(facts), len(object)) + facts + object
    return data + hashlib.sha256(data).digest()


def _unpack(data: bytes, digest: bytes) -> Entry | None:
    """The entry in `data`, or None when it is not a sound entry of this key."""
    if len(data) < _PREFIX.size + _CHECKSUM_BYTES:
        return None
    magic, version, written_for, header_bytes, object_bytes = _PREFIX.unpack_from(data)
    if (magic, version, written_for) != (_MAGIC, _VERSION, digest):
        return None
    end = _PREFIX.size + header_bytes + object_bytes
    if len(data) != end + _CHECKSUM_BYTES or hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        return None
    split = _PREFIX.size + header_bytes
    return Entry(object=data[split:end], header=json.loads(data[_PREFIX.size : split]))


def _write(folder: int, name: str, data: bytes) -> None:
    """Writes a file that nobody sees before it is whole. The checksum spares the wait for the disk.

    Raises:
        OSError: It could not be written; nothing is left behind.
    """
    temporary = f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
