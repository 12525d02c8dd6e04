"""The broker's lock: its starter takes it, the broker inherits it, and its end, whatever the cause, frees it.

So a broker runs if and only if its lock is held, and no process id is ever mistaken for a dead broker's.
"""

import fcntl
import os
import time
from pathlib import Path

_PATIENCE = 0.2
_PAUSE = 0.02


def take(path: Path) -> int | None:
    """Return a descriptor that holds the lock, to pass on and then to close; None where the lock is held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + _PATIENCE  # is_held takes it too, for a moment
    while not _locked(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > end:
            os.close(descriptor)
            return None
        time.sleep(_PAUSE)
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether somebody has the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
