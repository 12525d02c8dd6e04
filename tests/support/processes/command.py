"""A command in a process of its own, started as a user's shell would."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

LONG = 300.0
"""Seconds after which a test gives up on a process."""
PROGRAM = (sys.executable, "-c", "from streams.cli import main; main()")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class Process:
    """`mirrormesh ARGUMENTS` in a process of its own; its log is in `log`."""

    program = PROGRAM

    def __init__(self, folder, label, *arguments):
        self.path = folder / f"{label}.log"
        with self.path.open("ab") as log:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                [*self.program, *map(str, arguments)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | ONE_THREAD,
            )

    @property
    def log(self):
        """All it has said."""
        return self.path.read_text()

    @property
    def running(self):
        """Whether it still is there."""
        return self._process.poll() is None

    @property
    def code(self):
        """Its exit code, once it has one."""
        return self._process.poll()

    def ends(self, seconds=LONG):
        """Wait for its end and return the exit code; fail when it does not come."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.path.name} does not end: {self.log[-2000:]}") from None

    def kill(self):
        """End it as a power failure would."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(LONG)

    def terminate(self):
        """Ask it to end."""
        self._process.send_signal(signal.SIGTERM)
