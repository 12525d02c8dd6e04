"""A command in a real terminal: what stands on its screen, keys, and how it leaves the terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress
from threading import Lock, Thread

import pyte

from tests.support.processes.command import LONG, PROGRAM

KIND = {"TERM": "xterm-256color"}


def pretend(monkeypatch):
    """Let commands in this process draw as on a terminal, whatever this one is."""
    for name, value in (KIND | {"FORCE_COLOR": "1"}).items():
        monkeypatch.setenv(name, value)


class Terminal:
    """`mirrormesh ARGUMENTS` in a terminal of 80 columns and 24 lines. A context manager."""

    def __init__(self, folder, *arguments):
        self._ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.drawn = b""
        self._screen, self._lock = pyte.Screen(80, 24), Lock()  # drawn on in a thread, and read in another
        self._theirs = theirs
        self.resize(80, 24)
        unset = {"COLUMNS", "LINES", "NO_COLOR"}
        self.process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 # so that Ctrl-C is a signal
            env={name: value for name, value in os.environ.items() if name not in unset} | KIND,
        )
        self._thread = Thread(target=self._read)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)  # the reader meets the end
        self._thread.join()
        os.close(self._ours)

    @property
    def lines(self):
        """What stands on the screen, without the blanks at the ends."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def attributes(self):
        """How the terminal treats keys."""
        return termios.tcgetattr(self._theirs)

    def resize(self, columns, lines):
        """Make the terminal larger or smaller."""
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        with self._lock:
            self._screen.resize(lines, columns)

    def press(self, keys):
        """Type."""
        os.write(self._ours, keys.encode())

    def ends(self):
        """Wait for the command's end and return its exit code."""
        return self.process.wait(LONG)

    def _read(self):
        stream = pyte.ByteStream(self._screen)
        with suppress(OSError):  # Linux's way to say that nobody writes any more
            while chunk := os.read(self._ours, 65536):
                with self._lock:
                    stream.feed(chunk)
                self.drawn += chunk
