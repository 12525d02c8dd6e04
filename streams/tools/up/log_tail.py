"""Follows the log of a child process."""

import time
from pathlib import Path

from streams.terminal.malformed import HEAD

FRESH = 70.0
"""Seconds for which a warning is shown: one whose cause lasts comes again within a minute."""
_LOUD = {"WARNING", "ERROR", "CRITICAL"}
_LEVELS = _LOUD | {"DEBUG", "INFO"}
_BACK = " is heard again"
_NODE = "node "


class LogTail:
    """Follows a log. `last` is its last line of this life; `malformed` a feeder's on malformed records.

    Of each speaker the last line at WARNING or above is kept, until the log says that its cause is gone, or
    it does not come again.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.malformed = path, "", ""
        self._warnings: dict[str, tuple[float, str]] = {}
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> None:
        """Read the whole lines written since the last call."""
        oldest = time.monotonic() - FRESH
        self._warnings = {
            speaker: warning for speaker, warning in self._warnings.items() if warning[0] >= oldest
        }
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(self._offset)
            whole = log.read().rpartition(b"\n")[0]
        if not whole:
            return
        self._offset += len(whole) + 1
        for line in whole.decode("utf-8", "replace").splitlines():
            self._take(line)

    def warning(self, node: str = "") -> str:
        """Return the last warning of that node, else one of the process alone; "" for none."""
        shared = {
            speaker: warning for speaker, warning in self._warnings.items() if not speaker.startswith(_NODE)
        }
        node_warning = self._warnings.get(f"{_NODE}{node}")
        return node_warning[1] if node_warning is not None else max(shared.values(), default=(0.0, ""))[1]

    def forget(self) -> None:
        """Drop all warnings: their cause is gone."""
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
