"""The file of what lives have spent: a line each, with a checksum; the last line says how many there are.

A line is the same in the file and on the data broker. Damage is named, and ends the process.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import get_args

from nodes.accounting.spends import Data, DataReuse, Span, Spend, merged_lives
from streams.state.folder import JournalError, write_private

_FORMAT = "mirrormesh spends 1"
_SUM = 16
_REUSES = (None, *get_args(DataReuse))


class Damaged(ValueError):
    """A line is not what was written."""


def to_line(spend: Spend) -> str:
    """Return the line: a checksum, and JSON without infinities, which are null."""
    row = spend._asdict()
    row |= {"epsilon": None if spend.epsilon is None else str(spend.epsilon)}
    row["stream_epsilon"] = _number(spend.stream_epsilon)
    row["spans"] = [[where, _number(first), _number(end)] for where, first, end in spend.spans]
    return _summed(json.dumps(row))


def from_line(line: str) -> Spend:
    """Return the spend of a line. Raises Damaged."""
    try:
        row = json.loads(_checked(line))
        row["epsilon"] = None if row["epsilon"] is None else Fraction(row["epsilon"])
        row["stream_epsilon"] = math.inf if row["stream_epsilon"] is None else row["stream_epsilon"]
        row["spans"] = tuple(
            Span(where, -math.inf if first is None else first, math.inf if end is None else end)
            for where, first, end in row["spans"]
        )
        row["settings"] = tuple((key, value) for key, value in row["settings"])
        row["data"] = tuple(Data(*names) for names in row["data"])
        row["apart"] = tuple(row["apart"])
        spend = Spend(**row)
        _check(spend)
    except Damaged:
        raise
    except (ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise Damaged(f"it says what no life can have spent: {error}") from error
    return spend


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _summed(text: str) -> str:
    return f"{_digest(text)} {text}"


def _digest(text: str) -> str:
    """Return a checksum. Its text is of charges and settings: no record is in it."""
    return hashlib.sha256(f"{_FORMAT}\n{text}".encode()).hexdigest()[:_SUM]


def _checked(line: str) -> str:
    checksum, space, text = line[:_SUM], line[_SUM : _SUM + 1], line[_SUM + 1 :]
    if space != " " or checksum != _digest(text):
        raise Damaged("its checksum does not fit what it says")
    return text


def _check(spend: Spend) -> None:
    """Raise ValueError for an impossible spend, which would lower the total."""
    texts = (spend.run, spend.mesh, spend.folder, spend.life, spend.node, *spend.apart)
    texts += tuple(span.where for span in spend.spans)
    texts += tuple(text for setting in (*spend.settings, *spend.data) for text in setting)
    if not all(type(text) is str for text in texts):
        raise ValueError("a name is not text")
    if not all(type(count) is int and count >= 0 for count in (spend.charged, spend.before, spend.turn)):
        raise ValueError("a count is not a whole number of at least 0")
    flags = (spend.open, spend.by_plans)
    if not all(type(flag) is bool for flag in flags) or spend.reuse not in _REUSES:
        raise ValueError("open, by_plans or reuse has a value that is not allowed")
    costs = (spend.epsilon or 0, spend.delta, spend.stream_epsilon, spend.stream_delta)
    if not all(cost >= 0 for cost in costs) or math.isinf(spend.delta) or math.isinf(spend.stream_delta):
        raise ValueError("a cost is not a number of at least 0, or a delta is infinite")


def read_spends(path: Path) -> tuple[Spend, ...]:
    """Return the spends in a file, none if it is missing. Raises JournalError, which names a damaged line."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=4096)
def _read(path: Path, changed: int, size: int, inode: int) -> tuple[Spend, ...]:  # noqa: ARG001 # a key
    """Read the file. A host asks for the lines of all its nodes, for each of them."""
    unknown = "what earlier runs have spent is not known"
    lines = path.read_bytes().decode("ascii", errors="replace").split("\n")
    if lines[0] != _FORMAT:
        raise JournalError(
            f"{path}: line 1 is not {_FORMAT!r}, it is of another version or damaged: {unknown}"
        )
    spends: list[Spend] = []
    for number, line in enumerate(lines[1:-2], 2):
        try:
            spends.append(from_line(line))
        except Damaged as error:
            raise JournalError(f"{path}: line {number} is damaged, {error}: {unknown}") from error
    if len(lines) < 3 or lines[-1] or lines[-2] != _last_line(lines[1:-2]):
        raise JournalError(
            f"{path}: line {max(2, len(lines) - 1)}, the last one, is missing or damaged, so lines may be "
            f"missing: {unknown}"
        )
    return tuple(spends)


def _last_line(lines: list[str]) -> str:
    return _summed(f"{len(lines)} lines, {_digest(''.join(lines))}")


def write_spends(path: Path, spends: Iterable[Spend]) -> None:
    """Replace the file by these spends; durable when this returns. Raises JournalError."""
    lines = [to_line(spend) for spend in spends]
    text = "\n".join([_FORMAT, *lines, _last_line(lines), ""])
    try:
        write_private(path, lambda _: text)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error


def keep_spends(path: Path, *spends: Spend) -> Spend:
    """Merge spends with what is recorded; return the last one merged. Durable when this returns.

    Raises JournalError.
    """
    lives = merged_lives(read_spends(path), spends)
    write_spends(path, lives.values())
    return lives[spends[-1].identity]
