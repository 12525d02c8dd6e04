"""A child of `mirrormesh up`: the command line, or another program. It ends in order if `up` has ended."""

import os
import signal
import sys
from threading import Thread

from streams.tools.up.become import WORD, become

if sys.argv[1:2] == [WORD]:
    become(sys.argv[2:])

from streams.cli import main  # another program needs no import of ours


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # nobody writes: this returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)


Thread(target=_end_with_parent, name="parent", daemon=True).start()
main()
