"""What a child has said last, from its log."""

from pathlib import Path

_LOUD = {"WARNING", "ERROR", "CRITICAL"}
_LEVELS = _LOUD | {"DEBUG", "INFO"}


class LogTail:
    """Reads on in a log. `last` is its last line of this life, `warning` the last one at WARNING or above."""

    def __init__(self, path: Path) -> None:
        self.path, self.last, self.warning = path, "", ""
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> None:
        """Take in the whole lines that were written since."""
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

    def _take(self, line: str) -> None:
        text = "".join(character if character.isprintable() else " " for character in line).strip()
        if not text:
            return
        time, _, rest = text.partition(" ")
        level, _, message = rest.partition(" ")
        if level not in _LEVELS:
            self.last = text
            return
        said = message.partition(": ")[2] or message  # without who says it: the view tells that
        self.last = said
        if level in _LOUD:
            self.warning = f"{time[11:19]} {said}"
