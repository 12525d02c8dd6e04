"""Replaces a child of `mirrormesh up` by another program, which still ends when `up` ends."""

import ctypes
import os
import signal
import sys
from typing import NoReturn

WORD = "become"
"""The first argument of a child that must become another program: `become PROGRAM ARGUMENTS`."""
_ON_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of linux/prctl.h; it outlives exec


def become(command: list[str]) -> NoReturn:
    """Run the command in place of this process. On Linux the program is asked to end when `up` has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGTERM)
    os.execvp(command[0], command)  # noqa: S606 # no shell; `up` makes the arguments
