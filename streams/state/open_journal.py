"""An open journal: what the journals of nodes and of a collaboration's parties have in common."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from nodes.accounting.guarantee import Price
from streams.state.folder import JournalError, write_ahead_log
from streams.state.journal_file import Life, read_agreed, read_life
from streams.state.rows import from_text


class OpenJournal:
    """A journal's file, open until it is closed. Methods raise JournalError."""

    def _start(self, path: Path, opener: Callable[[ExitStack], sqlite3.Connection]) -> None:
        """Open it; what has been opened is closed again if that fails."""
        self._path = path
        with explained(path), ExitStack() as closing:
            self._connection = opener(closing)
            self._life, self._agreed = read_life(self._connection), read_agreed(self._connection)
            self._begin()
            self._closing = closing.pop_all()

    def _begin(self) -> None:
        """Read what an append needs to know."""

    @property
    def life(self) -> Life:
        """The journal's life: whose it is, its run and settings."""
        return self._life

    @property
    def instance(self) -> str:
        """The journal's own id, which all that is sent from it carries."""
        return self._life.instance

    @property
    def price(self) -> Price | None:
        """The price of this life's releases or answers; None: unknown, or there are none."""
        with explained(self._path):
            return from_text(self._life.price)

    @property
    def size(self) -> int:
        """The size on disk in bytes, write-ahead log included. From any thread."""
        files = (self._path, write_ahead_log(self._path))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the file and free its lock. Repeating it is harmless."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the file into JournalError with its name."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())  # SQLite quotes a damaged statement with its line breaks
        raise JournalError(f"the journal {path} cannot be used: {reason}") from error
