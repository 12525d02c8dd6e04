"""A simulated disk under real SQLite files, which loses unsynced writes when its simulated power fails.

SQLite accesses files by a table of functions, its VFS. This module wraps the VFS of this Python's SQLite.
Writes to a folder of a simulation reach the file, as they would reach a kernel's cache. They are also noted
until they are synced. When the power fails, any of the noted sectors may be lost.

Assumptions
-----------
* A sector of 512 bytes is written whole or not at all, and no other byte with it. By default SQLite assumes
  no more of a disk.
* Names, deletions and lengths that SQLite syncs are durable at once.
* A killed process loses nothing that it has written, as the kernel has the data.
"""

import _sqlite3
import ctypes
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streams.state.folder import JOURNAL, SIDE_FILES

SECTOR = 512
_DATABASE_FILES = ("", *SIDE_FILES)
"""The suffixes of a database's files. The index of its log is left out, because whoever opens the database
first makes it anew."""
_FULL, _FAILED_WRITE, _FAILED_SYNC, _FAILED_TRUNCATE, _FAILED_DELETE = 13, 778, 1034, 1546, 2570
"""Result codes of SQLite: the disk is full, or an input or output operation has failed."""


class _Written(NamedTuple):
    """Bytes that were written at an offset. `data` is None if the file was cut off there."""

    offset: int
    data: bytes | None


class DiskFile:
    """One file: its durable content, and the writes since the last sync, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.durable = path.read_bytes() if path.exists() else b""
        self.written: list[_Written] = []
        self.length = len(self.durable)

    def note(self, written: _Written) -> None:
        """Note a write to the file."""
        end = written.offset + len(written.data or b"")
        self.length = end if written.data is None else max(self.length, end)
        self.written.append(written)

    def sync(self) -> None:
        """Make all writes durable."""
        self.durable = _applied(self.durable, self.written)
        self.written = []

    def lose(self, chance: np.random.Generator) -> None:
        """Keep some sectors of the unsynced writes, and lose the others. The file then has this content."""
        share = float(chance.choice([0.1, 0.5, 0.9]))
        pieces = [piece for write in self.written for piece in _sectors(write)]
        self.durable = _applied(self.durable, [piece for piece in pieces if chance.random() < share])
        self.written, self.length = [], len(self.durable)
        self.path.write_bytes(self.durable)


class SimulatedDisk:
    """The disk of one folder.

    `full`: no file can grow. `operations`: the number of operations until the process dies, if any. `off`: no
    operation reaches the disk any more. Connections to its files must be closed before `lose`, `restore` and
    `spoil`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.full = self.off = False
        self.operations: int | None = None
        self.files: dict[str, DiskFile] = {}
        _vfs().disks[str(self.folder)] = self

    def remove(self) -> None:
        """Unregister the disk."""
        _vfs().disks.pop(str(self.folder), None)

    def lose(self, chance: np.random.Generator) -> None:
        """Let the power fail and come back at once. Sectors that were not synced may be lost."""
        for file in self.files.values():
            file.lose(chance)
        self._begin_again()

    def killed(self) -> None:
        """Handle a kill of the processes. Nothing on the disk is lost."""
        self._begin_again()

    def image(self) -> dict[str, bytes]:
        """Return the current content of the files, by name."""
        return {path.name: path.read_bytes() for path in self._paths()}

    def restore(self, image: dict[str, bytes]) -> None:
        """Write an older content over the files, in place."""
        for path in self._paths():
            if path.name not in image:
                path.unlink()
        for name, content in image.items():
            (self.folder / name).write_bytes(content)
        self.files.clear()
        self._begin_again()

    def spoil(self, chance: np.random.Generator) -> None:
        """Change a byte that is not 0 in one of the files."""
        paths = [path for path in self._paths() if path.stat().st_size]
        if not paths:
            return
        path = paths[int(chance.integers(len(paths)))]
        content = np.frombuffer(path.read_bytes(), np.uint8).copy()
        place = int(chance.choice(np.flatnonzero(content)))
        content[place] ^= 1 << int(chance.integers(8))
        path.write_bytes(content.tobytes())
        self.files.clear()

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name.endswith((JOURNAL, *SIDE_FILES)))

    def _begin_again(self) -> None:
        self.off, self.operations = False, None
        for path in self.folder.glob("*-shm"):
            path.unlink()

    # ------------------------------------------------------------------------------------ what SQLite does

    def opened(self, path: Path) -> DiskFile:
        """Return the entry of a file of this disk."""
        if path.name not in self.files:
            self.files[path.name] = DiskFile(path)
        return self.files[path.name]

    def works(self) -> bool:
        """Count an operation. Return whether it is done."""
        if self.operations is not None and not self.off:
            self.operations -= 1
            self.off = self.operations < 0
        return not self.off


def _sectors(written: _Written) -> Iterator[_Written]:
    offset, data = written
    if data is None:
        yield written
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR - (offset + start) % SECTOR)
        yield _Written(offset + start, data[start:end])
        start = end


def _applied(content: bytes, written: list[_Written]) -> bytes:
    image = bytearray(content)
    for offset, data in written:
        if data is None:
            del image[offset:]
        else:
            image.extend(bytes(max(0, offset - len(image))))
            image[offset : offset + len(data)] = data
    return bytes(image)


# --------------------------------------------------------------------------------------- SQLite's functions

_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _VfsTable(Structure):
    """The fields of `sqlite3_vfs` up to the last one that is wrapped. Later fields are copied unchanged."""

    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _Open),
        ("delete", _Delete),
        ("others", c_void_p * 14),
    )


class _FileTable(Structure):
    """`sqlite3_io_methods`."""

    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _Write),
        ("truncate", _Truncate),
        ("sync", _Sync),
        ("others", c_void_p * 13),
    )


class _Vfs:
    """The wrapped table of functions. `disks` has the simulated disks by folder."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.disks: dict[str, SimulatedDisk] = {}
        self._library = library
        library.sqlite3_vfs_find.restype = POINTER(_VfsTable)
        self._default = library.sqlite3_vfs_find(None)
        self._table = _VfsTable.from_buffer_copy(self._default.contents)
        self._table.name, self._table.next = b"mirrormesh-disk", None
        self._table.open, self._table.delete = _Open(self._open), _Delete(self._delete)
        self._files: dict[int, tuple[SimulatedDisk, DiskFile]] = {}  # by the address of SQLite's file
        self._methods: dict[int, tuple[_FileTable, _FileTable]] = {}  # wrapped, original
        library.sqlite3_vfs_register(byref(self._table), 0)

    @contextmanager
    def for_new_connections(self) -> Iterator[None]:
        """A context in which new connections use the simulated disks."""
        self._library.sqlite3_vfs_register(byref(self._table), 1)
        try:
            yield
        finally:
            self._library.sqlite3_vfs_register(self._default, 1)

    # None of these functions raises an exception: one that leaves a function which C calls is lost.

    def _open(self, _: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result = self._default.contents.open(cast(self._default, c_void_p), name, file, flags, out)
        if result == 0 and name:
            disk, path = self._place(ctypes.string_at(name))
            if disk is not None and path.name.endswith((JOURNAL, *SIDE_FILES)):
                self._files[file] = disk, disk.opened(path)
                self._wrap(file)
        return int(result)

    def _delete(self, _: int, name: bytes, sync: int) -> int:
        disk, path = self._place(name)
        if disk is not None and not disk.works():
            return _FAILED_DELETE
        if disk is not None:
            disk.files.pop(path.name, None)
        return int(self._default.contents.delete(cast(self._default, c_void_p), name, sync))

    def _place(self, name: bytes) -> tuple[SimulatedDisk | None, Path]:
        path = Path(name.decode())
        return self.disks.get(str(path.parent)), path

    def _wrap(self, file: int) -> None:
        """Give a file the wrapped functions.

        The first field of SQLite's file is the address of their table.
        """
        table = cast(file, POINTER(c_void_p))
        address = table[0] or 0
        if address not in self._methods:
            originals = _FileTable.from_address(address)
            wrapped = _FileTable.from_buffer_copy(originals)
            wrapped.write = _Write(self._caller(self._write, originals))
            wrapped.truncate = _Truncate(self._caller(self._truncate, originals))
            wrapped.sync = _Sync(self._caller(self._sync, originals))
            self._methods[address] = wrapped, originals
        table[0] = ctypes.addressof(self._methods[address][0])

    @staticmethod
    def _caller(function: Callable[..., int], originals: _FileTable) -> Callable[..., int]:
        return lambda file, *given: function(originals, file, *given)

    def _write(self, originals: _FileTable, file: int, data: int, amount: int, offset: int) -> int:
        disk, mirrored = self._files[file]
        if disk.full and offset + amount > mirrored.length:
            return _FULL
        if not disk.works():
            return _FAILED_WRITE
        mirrored.note(_Written(offset, ctypes.string_at(data, amount)))
        return int(originals.write(file, data, amount, offset))

    def _truncate(self, originals: _FileTable, file: int, size: int) -> int:
        disk, mirrored = self._files[file]
        if not disk.works():
            return _FAILED_TRUNCATE
        mirrored.note(_Written(size, None))
        return int(originals.truncate(file, size))

    def _sync(self, _: _FileTable, file: int, __: int) -> int:
        disk, mirrored = self._files[file]
        if not disk.works():
            return _FAILED_SYNC
        mirrored.sync()
        return 0


@cache
def _vfs() -> _Vfs:
    return _Vfs(_library())


@cache
def _library() -> ctypes.CDLL:
    """Return the SQLite library that this Python's module `sqlite3` uses. Raises OSError, AttributeError."""
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    library.sqlite3_vfs_find, library.sqlite3_vfs_register  # noqa: B018 # raises if they are not there
    return library


@cache
def has_disks() -> bool:
    """Return whether the files of this Python's SQLite can be wrapped.

    They cannot if its names are hidden.
    """
    try:
        _library()
    except (OSError, AttributeError):
        return False
    return sqlite3.sqlite_version_info >= (3, 24)


def on_disks() -> Any:
    """Return a context in which new connections use the simulated disks."""
    return _vfs().for_new_connections()
