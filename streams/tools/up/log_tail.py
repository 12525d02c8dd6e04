"""Follows the log of a child process."""

import time
from pathlib import Path

from streams.terminal.malformed import HEAD

FRESH = 70.0
"""Seconds for which a warning is shown: one whose cause lasts comes again within a minute."""
_LOUD = {"WARNING", "ERROR", "CRITICAL"}
_LEVELS = _LOUD | {"DEBUG", "INFO"}
_BACK = " is heard again"


class LogTail:
    """Follows a log. `last` is its last line of this life, `warning` the last one at WARNING or above.

    A warning goes when the log says that its cause is gone, or when it does not come again. `malformed` is a
    feeder's line on malformed records.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.warning, self.malformed = path, "", "", ""
        self._warned = 0.0
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> None:
        """Read the whole lines written since the last call."""
        if time.monotonic() - self._warned > FRESH:
            self.forget()
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

    def forget(self) -> None:
        """Drop the warning: its cause is gone."""
        self.warning = ""

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
        said = message.partition(": ")[2] or message  # without the speaker's name, which the view shows
        self.last = said
        if level in _LOUD:
            self.warning, self._warned = f"{at[11:19]} {said}", time.monotonic()
        elif said.endswith(_BACK) and f" {said.removesuffix(_BACK)} was silent " in self.warning:
            self.forget()
