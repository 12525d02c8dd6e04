"""Turns a child of `mirrormesh up` into another program, which still ends with `up`."""

import ctypes
import os
import signal
import sys
from typing import NoReturn

WORD = "become"
"""The first argument of a child that is to be another program: `become PROGRAM ARGUMENTS`."""
_ON_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of linux/prctl.h; it outlives exec


def become(command: list[str]) -> NoReturn:
    """Run the command in this process's place; on Linux it is asked to end when `up` is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGTERM)
    os.execvp(command[0], command)  # noqa: S606 # no shell; `up` makes the arguments
