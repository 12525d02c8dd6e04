"""Runs child processes: starts them, restarts them when they fail, follows their logs, and ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path

from streams.terminal.malformed import HEAD
from streams.tools.up.programs import Program

# Follows the log of a child process.

FRESH = 70.0
"""Seconds for which a warning is shown. A warning whose cause lasts is logged again within a minute."""
_LOUD = {"WARNING", "ERROR", "CRITICAL"}
_LEVELS = _LOUD | {"DEBUG", "INFO"}
_BACK = " is heard again"
_NODE = "node "


class LogTail:
    """Follows the log of a child process.

    `last` is the last line of the child's current life. `malformed` is a feeder's line on malformed records.
    Of each speaker the last line at WARNING or above is kept, until the log says that its cause is gone, or
    for `FRESH` seconds.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.malformed = path, "", ""
        self._warnings: dict[str, tuple[float, str]] = {}
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> None:
        """Read the complete lines that were written since the last call."""
        oldest = time.monotonic() - FRESH
        self._warnings = {
            speaker: warning for speaker, warning in self._warnings.items() if warning[0] >= oldest
        }
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(self._offset)
            complete_lines = log.read().rpartition(b"\n")[0]
        if not complete_lines:
            return
        self._offset += len(complete_lines) + 1
        for line in complete_lines.decode("utf-8", "replace").splitlines():
            self._take(line)

    def warning(self, node: str = "") -> str:
        """Return the node's last warning, or else the last one of the whole process; "" if there is none."""
        shared = {
            speaker: warning for speaker, warning in self._warnings.items() if not speaker.startswith(_NODE)
        }
        node_warning = self._warnings.get(f"{_NODE}{node}")
        return node_warning[1] if node_warning is not None else max(shared.values(), default=(0.0, ""))[1]

    def forget(self) -> None:
        """Drop all warnings, as their cause is gone."""
        self._warnings.clear()

    def _take(self, line: str) -> None:
        text = "".join(character if character.isprintable() else " " for character in line).strip()
        if not text:
            return
        at, _, rest = text.partition(" ")
        level, _, message = rest.partition(" ")
        if level not in _LEVELS:
            self.last = text
            if text.startswith(HEAD):
                self.malformed = text
            return
        speaker, _, rest = message.partition(": ")
        event_text = self.last = rest or message  # without the speaker's name, which the view shows
        if level in _LOUD:
            self._warnings[speaker] = time.monotonic(), f"{at[11:19]} {event_text}"
        elif event_text.endswith(_BACK):
            _, before = self._warnings.get(speaker, (0.0, ""))
            if f" {event_text.removesuffix(_BACK)} was silent " in before:
                del self._warnings[speaker]


Say = Callable[[str], None]
FIRST, LONGEST = 1.0, 30.0
"""Seconds until a failed child starts again: the first time, and at most."""
PATIENCE = 60.0
"""Seconds for a child's orderly end, which takes long on a busy machine."""
# -P: no module in the working directory may shadow one of ours
_COMMAND = (sys.executable, "-P", "-m", "streams.tools.up")


def _for_the_owner(path: str, flags: int) -> int:
    # a feed's log contains the number of records
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # an existing log may be readable for others
    return descriptor


class Backoff:
    """The wait before the next start. It doubles each time, and resets after a child that lived long."""

    def __init__(self) -> None:
        self._next = FIRST

    def after(self, lived: float) -> float:
        """Return the seconds to wait after a life of `lived` seconds."""
        delay = FIRST if lived > LONGEST else self._next
        self._next = min(2 * delay, LONGEST)
        return delay


class Child:
    """One program, started again after failures.

    `code` is its last exit code. A code that is not among those of a finished program is a failure. `failure`
    is the text of its last failure; "" if it never failed, or finished after all.

    The program runs in its own session, where Ctrl-C does not reach it. Its standard input ends with this
    process.
    """

    def __init__(self, program: Program, log: Path, say: Say) -> None:
        self.label, self.log = program.label, LogTail(log)
        self.done, self.code, self.restarts = False, 0, 0
        self.failure = ""
        self._program, self._say, self._backoff = program, say, Backoff()
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._due = 0.0

    @property
    def began(self) -> float | None:
        """The start of the current process, on the monotonic clock; None if there is none."""
        return None if self._process is None else self._began

    @property
    def state(self) -> str:
        """The state of the program in a word or two."""
        if self.done:
            return "done"
        if self._process is not None:
            return "running"
        return f"again in {max(1, ceil(self._due - time.monotonic()))} s" if self._due else "not started"

    def look(self) -> None:
        """Start the program if it is due, and note its end."""
        if self.done:
            return
        if self._process is None:
            if time.monotonic() >= self._due:
                self._start()
        elif (code := self._process.poll()) is not None:
            self._ended(code)

    def ask_to_end(self) -> None:
        """Ask the process to end in order. It does not start again without another `look`."""
        if self._process is not None:
            self._process.terminate()

    def end(self, deadline: float) -> None:
        """Wait for the process's end. Kill it at `deadline`, on the monotonic clock."""
        process = self._process
        if process is None:
            return
        if time.monotonic() - self._began > LONGEST:  # this life has overcome what ended the one before
            self.failure = ""
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._say(f"{self.label} did not end within {PATIENCE:g} s: killed")
        finally:
            self._forget(process)

    def _start(self) -> None:
        with open(self.log.path, "ab", opener=_for_the_owner) as log:  # Path.open takes no opener
            self._process = subprocess.Popen(  # noqa: S603 # arguments of our own
                [*_COMMAND, *self._program.arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # There are as many processes as cores, or more. So threads of linear algebra would only
                # compete.
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )
        self.restarts += bool(self._began)
        self._began = time.monotonic()

    def _ended(self, code: int) -> None:
        if self._process is not None:
            self._forget(self._process)
        if code in self._program.done:
            self.done, self.failure = True, ""
            return
        now = time.monotonic()
        delay = self._backoff.after(now - self._began)
        self._due = now + delay
        self.log.read()
        last_line = f": {self.log.last}" if self.log.last and code > 0 else ""
        if code > 0:
            self.failure = f"{self.label} {ending(code)}{last_line}"
        self._say(f"{self.label} {ending(code)}, and starts again in {delay:g} s{last_line}")

    def _forget(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is not None:
            process.stdin.close()
        self.code = process.returncode
        self._process = None


def ending(code: int) -> str:
    """Return how a process has ended, in words."""
    if code >= 0:
        return f"has failed (exit code {code})"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"


def end_all(children: Sequence[Child]) -> None:
    """Ask all children to end, then wait for each."""
    for child in children:
        child.ask_to_end()
    deadline = time.monotonic() + PATIENCE
    for child in children:
        child.end(deadline)
