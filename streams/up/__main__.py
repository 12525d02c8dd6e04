"""A child of `mirrormesh up`: the same command line, ended in order when `up` is gone, however it went."""

import os
import signal
import sys
from threading import Thread

from streams.cli import main


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written: it returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)


Thread(target=_end_with_parent, name="parent", daemon=True).start()
main()
