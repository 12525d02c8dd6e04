"""Reads the records of a CSV file: converts its encoding, and finds the lines of each record.

By default a record is a line, so that nothing in one record decides where another lies. Where the owner
allows line breaks in quotes, the content of lines decides that. A record is then the shortest run of lines
that is a whole row, with as many values as there are columns, and not longer than a record may be. A line
that begins no such run is an unreadable record of its own, and the next line begins a new record. So a quote
that is never closed makes no further line unreadable.
"""

import codecs
import csv
import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from functools import lru_cache, partial
from io import TextIOWrapper
from typing import BinaryIO, NamedTuple

from streams.mesh.settings.node import DialectSettings, is_utf8
from streams.records.faults import csv_options
from streams.records.lines import numbered_lines, opened, whole_lines

Numbered = Generator[tuple[int, bytes]]
"""Records, in UTF-8, with the numbers of the lines that they begin on."""


def csv_records(
    path: str,
    dialect: DialectSettings | None,
    columns: int | None,
    longest: int,
    stdin: BinaryIO | None = None,
) -> Numbered:
    """Yield the records of a file, without a byte order mark. Blank lines between records are left out.

    `columns`: the number of columns; None: as many as the first record has, which names them. `longest`: the
    largest size in bytes of a record over several lines. Bytes that are not in the file's encoding make their
    record unreadable. Raises as `numbered_lines`.
    """
    recode = None if dialect is None or is_utf8(dialect.encoding) else partial(_Recoded, dialect.encoding)
    if dialect is None or not dialect.line_breaks:
        yield from numbered_lines(path, stdin, recode)
        return
    with closing(whole_lines(path, stdin, recode)) as lines:  # type: ignore[type-var] # a generator
        yield from _over_lines(lines, dialect, columns, longest)


_MARKED = "mirrormesh-marked"
codecs.register_error(_MARKED, lambda error: ("\udcff", getattr(error, "end", 0)))
"""Replaces undecodable bytes by half of a surrogate pair. No strict decoding yields it, and no UTF-8 has
it."""


class _Recoded:
    """A file in another encoding, as UTF-8."""

    def __init__(self, encoding: str, file: BinaryIO) -> None:
        self._text = TextIOWrapper(file, encoding, _MARKED, newline="\n")

    def __del__(self) -> None:
        """Detach the file, so that whoever opened it can close it, also if it is standard input."""
        with suppress(ValueError):  # the file is closed already
            self._text.detach()

    def readline(self, size: int, /) -> bytes:
        """Return the next line in UTF-8, except for the marks of undecodable bytes."""
        return self._text.readline(size).encode(errors="surrogatepass")


def _over_lines(
    lines: Iterator[tuple[int, bytes | None]], dialect: DialectSettings, columns: int | None, longest: int
) -> Numbered:
    """Yield records of one line or more. Each line that belongs to no earlier record begins a new one."""
    options, quote = csv_options(dialect), dialect.quote.encode()
    ahead = deque[tuple[int, bytes | None]]()
    while ahead or (ahead := deque(_next(lines))):
        number, first = ahead.popleft()
        if first is None:
            yield number, b""
            continue
        if not first or first.isspace():
            continue
        run = _Run(first, ahead, lines, longest)
        count = 1
        if columns is None or quote in first:
            try:
                row = next(csv.reader(run, **options), [])
                count = run.lines if columns in {None, len(row)} else 1
                columns = columns or len(row)
            except (csv.Error, ValueError):  # an unclosed quote, or a line that is not UTF-8
                count = 1
        record = b"".join([first, *(ahead.popleft()[1] or b"" for _ in range(count - 1))])
        yield number, record.removesuffix(b"\n").removesuffix(b"\r")


def _next(lines: Iterator[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
    line = next(lines, None)
    return [] if line is None else [line]


class _Run(Iterator[str]):
    """The text of a line and of its followers, read as far as the CSV reader asks for them.

    The text ends at a line that is too long, and where a record would be. Lines that were read stay in
    `ahead`.
    """

    def __init__(
        self,
        first: bytes,
        ahead: deque[tuple[int, bytes | None]],
        lines: Iterator[tuple[int, bytes | None]],
        longest: int,
    ) -> None:
        self._first, self._ahead, self._source, self._longest = first, ahead, lines, longest
        self.lines = self._bytes = 0

    def __next__(self) -> str:
        line: bytes | None = self._first
        if self.lines:
            if len(self._ahead) < self.lines:
                self._ahead.extend(_next(self._source))
            if len(self._ahead) < self.lines:
                raise StopIteration
            line = self._ahead[self.lines - 1][1]
        if line is None or self._bytes + len(line.rstrip(b"\r\n")) > self._longest:
            raise StopIteration
        self._bytes += len(line)
        self.lines += 1
        return line.decode()


class NotEncoded(NamedTuple):
    """The place where a file is not in its encoding: the line, from 1 on, and the byte of the file, from 0
    on.
    """

    line: int
    byte: int


_PIECE = 1 << 20


def not_encoded(path: str, encoding: str) -> NotEncoded | None:
    """Return the first place where a regular file, unpacked, is not in this encoding; None if there is none.

    The file is read once as long as it does not change. Raises OSError, EOFError or zlib.error.
    """
    status = os.stat(path)  # noqa: PTH116 # a path as it is written
    return _not_encoded(path, encoding, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(256)
def _not_encoded(path: str, encoding: str, _state: tuple[int, ...]) -> NotEncoded | None:
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = bytes_before = 0
    with closing(opened(path)) as file:
        while True:
            piece, state = file.read(_PIECE), decoder.getstate()
            try:
                lines += decoder.decode(piece, not piece).count("\n")
            except UnicodeDecodeError as error:
                valid = max(0, error.start - len(state[0]))
                decoder.setstate(state)
                with suppress(UnicodeError):
                    lines += decoder.decode(piece[:valid]).count("\n")
                return NotEncoded(1 + lines, bytes_before - len(state[0]) + error.start)
            except UnicodeError:  # without a byte order mark, which UTF-16 needs
                return NotEncoded(1, 0)
            bytes_before += len(piece)
            if not piece:
                return None
