"""`mirrormesh` that dies at an effect: `python -m tests.support.processes.mortal BOUNDARY NUMBER ARGUMENTS`.

It kills itself, as a power failure would, just before or after the NUMBER-th append to any of its journals,
or the NUMBER-th release that any of its nodes sends.
"""

import os
import signal
import sys
import threading

from streams.bus.kafka import KafkaBus
from streams.cli import main
from streams.state.journal import SqliteJournal

BOUNDARIES = ("before append", "after append", "before send", "after send")


def mortal(boundary, number):
    """Let this process die there."""
    moment, effect = boundary.split()
    kind, name = (SqliteJournal, "append") if effect == "append" else (KafkaBus, "send")
    whole, lock, count = getattr(kind, name), threading.Lock(), iter(range(1, 1_000_000))

    def deadly(self, subject, *rest, **options):
        counts = effect == "append" or ".edge." in subject
        with lock:
            dies = counts and next(count) == number
        if dies and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = whole(self, subject, *rest, **options)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(kind, name, deadly)


if __name__ == "__main__":
    _, at, moment, *arguments = sys.argv
    mortal(at, int(moment))
    sys.argv = ["mirrormesh", *arguments]
    main()
