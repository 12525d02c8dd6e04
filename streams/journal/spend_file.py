"""`<node>.spends` in a state folder: a line of JSON for each life, for its owner's eyes."""

from collections.abc import Iterable
from pathlib import Path

from nodes.privacy.spends import Spend
from streams.journal.durable import write_private
from streams.journal.file import JournalError
from streams.journal.spend_lines import from_line, to_line


def spends_file(state: Path, node: str) -> Path:
    """Return where a node's spends are kept."""
    return state / f"{node}.spends"


def read_spends(path: Path) -> tuple[Spend, ...]:
    """Return the spends in a file, none where there is none. Raises JournalError where it is broken."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    try:
        return tuple(from_line(line) for line in lines)
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path} is broken: what earlier runs have spent is not known") from error


def write_spends(path: Path, spends: Iterable[Spend]) -> None:
    """Write them down in place of what stood there; durable when this returns. Raises JournalError."""
    text = "".join(f"{to_line(spend)}\n" for spend in spends)
    try:
        write_private(path, lambda _: text)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error
