"""Single keys of a terminal, while a picture is drawn on it."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Pressed = Callable[[float], str]
"""Takes how many seconds to wait; returns the key that was pressed, or nothing."""


@contextmanager
def keys() -> Iterator[Pressed]:
    """Let keys through one by one, unseen, and leave the terminal as it was. Without one: no keys.

    Ctrl-C stays a signal.
    """
    if not sys.stdin.isatty():
        yield _none
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        yield lambda seconds: _pressed(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def _pressed(terminal: int, seconds: float) -> str:
    ready, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 1).decode("ascii", "replace") if ready else ""


def _none(seconds: float) -> str:
    time.sleep(seconds)
    return ""
