"""Commands in processes forked from one that has imported what they need: a start takes milliseconds."""

import multiprocessing
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

from streams.cli import main
from tests.support.processes.command import LONG, ONE_THREAD, Process

_WANTED = (
    "faust",
    "kafka",
    "streams.cli.budget",
    "streams.cli.feed",
    "streams.cli.processes",
    "streams.cli.watch",
    "streams.collaboration.processes",
    "streams.live.node_process",
    "streams.live.scheduler_process",
    "streams.live.data.app",
    "streams.tools.feed.feed",
)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(list(_WANTED))


def command(folder, path, arguments, environment):
    """Do a command in this process; its log goes to the file at `path`."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with path.open("ab") as log, Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = ["mirrormesh", *arguments]
    main()


class Forked(Process):
    """As Process, without a new interpreter: for tests of what a command does once it runs."""

    target = staticmethod(command)

    def __init__(self, folder, label, *arguments):
        self.path = folder / f"{label}.log"
        self.path.touch()
        self.started = time.monotonic()
        given = (folder, self.path, tuple(map(str, arguments)), os.environ | ONE_THREAD)
        self._process = _FORKS.Process(target=self.target, args=given, daemon=True)
        self._process.start()

    @property
    def running(self):
        """Whether it still is there."""
        return self.code is None

    @property
    def pid(self):
        """Its number."""
        return self._process.pid

    @property
    def code(self):
        """Its exit code, once it has one."""
        return self._process.exitcode

    def ends(self, seconds=LONG):
        """Wait for its end and return the exit code; fail when it does not come."""
        self._process.join(seconds)
        assert self.code is not None, f"{self.path.name} does not end: {self.log[-2000:]}"
        return self.code

    def kill(self):
        """End it as a power failure would."""
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, SIGKILL)
        self._process.join(LONG)

    def terminate(self):
        """Ask it to end."""
        self._process.terminate()
