"""What a disk does to a state folder: it is full, must not be written to, or holds other bytes."""

import ctypes
import os
import resource
import shutil
from contextlib import contextmanager, nullcontext

_VERSION, _CAPGET, _CAPSET = 0x20080522, 125, 126
_IGNORES_MODES = 0b110
"""The capabilities with which root reads and writes whatever the modes of files say."""


@contextmanager
def full(_folder=None):
    """No file may grow in this process: a write fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def read_only(folder):
    """Nobody may write to the folder and its files, root in this thread neither."""
    modes = {path: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.syscall(_CAPGET, header, rights) == 0
    effective = rights[0]
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    rights[0] = effective & ~_IGNORES_MODES
    assert libc.syscall(_CAPSET, header, rights) == 0
    try:
        assert not os.access(folder, os.W_OK, effective_ids=True)
        yield
    finally:
        rights[0] = effective
        assert libc.syscall(_CAPSET, header, rights) == 0
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def _changed(path, change):
    """The file is another while this lasts."""
    kept = path.with_name(f"kept-{path.name}")
    path.rename(kept)
    try:
        change(path, kept.read_bytes())
        yield
    finally:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        kept.rename(path)


def overwritten(path):
    """The file holds other bytes, which are no text."""
    return _changed(path, lambda new, _: new.write_bytes(b"\xff\xfe{]\0"))


def cut(path):
    """The file has lost its second half."""
    return _changed(path, lambda new, content: new.write_bytes(content[: len(content) // 2]))


def flipped(path):
    """One bit of the file is another."""

    def flip(new, content):
        middle = len(content) // 2
        new.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])

    return _changed(path, flip)


def replaced_by_a_folder(path):
    """A folder stands where the file was."""
    return _changed(path, lambda new, _: new.mkdir())


nothing = nullcontext
"""All is well."""
