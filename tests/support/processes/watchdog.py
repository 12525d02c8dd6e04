"""Plays systemd for one process: hears its notices, and restarts it when its watchdog hears nothing."""

import os
import signal
import socket
import time
import uuid
from contextlib import contextmanager, suppress

import pytest

from tests.support.processes.command import LONG


class ServiceSocket:
    """A notify socket as systemd has it, and what came to it: one notice a line."""

    def __init__(self):
        name = f"mirrormesh-{uuid.uuid4().hex}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{name}")
        self.socket.setblocking(False)
        self.environment = {"NOTIFY_SOCKET": f"@{name}"}

    def heard(self):
        """The lines that came since the last call."""
        lines = []
        with suppress(BlockingIOError):
            while True:
                lines += self.socket.recv(4096).decode().splitlines()
        return lines

    @contextmanager
    def given(self):
        """Give the environment that names it to processes started in the block."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.environment.items():
                patched.setenv(name, value)
            yield

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Watchdog(ServiceSocket):
    """Keeps one process running, which `start` starts. Call `look` often."""

    def __init__(self, start, seconds):
        super().__init__()
        self.environment["WATCHDOG_USEC"] = str(int(seconds * 1e6))
        self._start, self._seconds = start, seconds
        self.ends = []
        self._begin()

    def look(self):
        """Take notices; kill and restart the process if it is silent. Return whether it is ready."""
        lines = self.heard()
        self.lines += lines
        self.ready |= "READY=1" in lines
        if "WATCHDOG=1" in lines:
            self._last = time.monotonic()
        if self.ready and time.monotonic() - self._last > self._seconds:
            os.kill(self.process._process.pid, signal.SIGABRT)
            self.ends.append(self.process.ends(LONG))
            self._begin()
        return self.ready

    def _begin(self):
        self.lines, self.ready = [], False
        with self.given():
            self.process = self._start()
