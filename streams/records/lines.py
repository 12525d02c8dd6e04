"""Reads lines of a file or of standard input, lazily; files that end in `.gz` are unpacked."""

import errno
import gzip
import io
import math
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import closing
from errno import EFBIG
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from streams.mesh.compatibility import takes
from streams.mesh.read_files import note_file
from streams.mesh.settings.files import LONGEST_LINE, TakeSettings
from topology.keyed import generator

_LEAST, _RATIO, _LINE = 1 << 30, 300, 64
"""Limits of a packed file's size unpacked: in bytes, or as a ratio; and the overhead of a line in memory.
Text packs to a fifth or a tenth of its size, rarely to a fiftieth."""
_BLOCK = 1 << 16
"""The number of bytes that are read of a file at a time. A line may be longer."""


class Readable(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, at most `size` bytes of it; empty at the end."""


T = TypeVar("T")
Recode = Callable[[BinaryIO], Readable]
"""Makes UTF-8 of a file in another encoding."""


def lines(path: str, stdin: BinaryIO | None = None) -> Iterator[bytes]:
    """Yield each line that is not blank, as `numbered_lines` does, without its number."""
    return map(itemgetter(1), numbered_lines(path, stdin))


def numbered_lines(
    path: str, stdin: BinaryIO | None = None, recode: Recode | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number from 1 on, without its end and a byte order mark. Blank lines are
    skipped.

    `-` is standard input. Raises OSError, EOFError or zlib.error.
    """
    if path == "-" or recode is not None:
        yield from _read(_lines, path, stdin, recode)
        return
    with closing(opened(path)) as file:
        yield from _numbered(_by_blocks(cast("io.BufferedReader", file)), _most_bytes(path))


def whole_lines(
    path: str, stdin: BinaryIO | None = None, recode: Recode | None = None
) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number and its end, or None if the line is too long; else as
    `numbered_lines`.
    """
    yield from _read(_whole_lines, path, stdin, recode)


def _read(
    read: Callable[[Readable, float], Iterator[T]], path: str, stdin: BinaryIO | None, recode: Recode | None
) -> Iterator[T]:
    recode = recode or _as_it_is
    if path == "-":
        source = stdin or sys.stdin.buffer
        note_file(source)  # standard input may be redirected from a file
        yield from read(recode(source), math.inf)
        return
    with closing(opened(path)) as file:
        readable = recode(file)
        yield from read(readable, _most_bytes(path))


def _most_bytes(path: str) -> float:
    """Return how many bytes of memory the lines of a file may need."""
    return max(_LEAST, _RATIO * Path(path).stat().st_size) if is_packed(path) else math.inf


def _as_it_is(file: BinaryIO) -> Readable:
    return file


def is_packed(path: str) -> bool:
    """Return whether the file is unpacked while it is read."""
    return path.endswith(".gz")


def opened(path: str) -> BinaryIO:
    """Return the file, unpacked while it is read; the caller closes it. Raises OSError, also for a device."""
    if stat.S_IFMT(Path(path).stat().st_mode) in {stat.S_IFCHR, stat.S_IFBLK}:
        # /dev/zero has a line without an end
        raise OSError(errno.EINVAL, "a device", path)
    if not is_packed(path):
        file = Path(path).open("rb")  # noqa: SIM115 # the caller does
        note_file(file)
        return file
    packed = gzip.open(path, "rb")  # noqa: SIM115 # as above
    note_file(packed)
    # so a line costs no call of gzip's functions, which are written in Python
    return cast("BinaryIO", io.BufferedReader(_Unpacked(packed)))


class _Unpacked(io.RawIOBase):
    """Unpacks a file piece by piece. Damage behind a piece raises only after that piece was returned."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to as many bytes as the buffer takes."""
        view = memoryview(buffer).cast("B")
        piece = self._packed.read1(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close the packed file too."""
        self._packed.close()
        super().close()


def ordered(
    lines: Iterator[bytes], seed: int, *, shuffle: bool, take: TakeSettings | None, by_time: bool
) -> Iterator[bytes]:
    """Yield the lines that `take` selects, in the order of the seed.

    The order depends on the seed and the number of lines alone. So nodes that read parts of one file with the
    same `every` share it without overlap or rest. With slots `by_time` a hash of each line's bytes chooses
    its part, and there is no shuffle. So a further line moves no other line.
    """
    if by_time:
        return lines if take is None else filter(partial(takes, take), lines)
    if shuffle:
        all_lines = list(lines)
        order = generator("order", seed).permutation(len(all_lines))
        chosen = order if take is None else order[take.offset :: take.every]
        return (all_lines[k] for k in chosen.tolist())
    return lines if take is None else islice(lines, take.offset, None, take.every)


def _lines(file: Readable, most: float = math.inf) -> Iterator[tuple[int, bytes]]:
    """Yield the lines as `numbered_lines` does; nothing is read ahead of a line."""
    return _numbered(_one_by_one(file), most)


def _one_by_one(file: Readable) -> Iterator[bytes | None]:
    """Yield each line without its end, or None if it is too long. Nothing is read ahead of a line."""
    while line := file.readline(LONGEST_LINE):
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) < LONGEST_LINE:
            yield line
        else:
            _pass_over(file)
            yield None


def _by_blocks(file: io.BufferedReader) -> Iterator[bytes | None]:
    """Yield the lines of `_one_by_one` in a third of the time."""
    tail, is_too_long = b"", False
    while block := file.read1(_BLOCK):
        head, *next_lines = block.split(b"\n")
        if not is_too_long:
            tail += head
            is_too_long = len(tail) >= LONGEST_LINE
        if is_too_long:
            tail = b""
        if next_lines:
            yield None if is_too_long else tail
            tail, is_too_long = next_lines.pop(), False
            yield from next_lines  # shorter than a block
    if tail or is_too_long:
        yield None if is_too_long else tail


def _numbered(lines: Iterator[bytes | None], most: float = math.inf) -> Iterator[tuple[int, bytes]]:
    """Yield the lines as `numbered_lines` does. Raises OSError if they need more than `most` bytes.

    Records that are sorted, shuffled or scored are all in memory, and a byte of a packed file can contain a
    thousand empty lines.
    """
    unpacked = 0
    for number, line in enumerate(lines, 1):
        text = b""
        if line is not None:
            # A byte order mark belongs to the file, not to its first record, as another record may be
            # inserted before this one.
            text = line.removeprefix(BOM_UTF8) if number == 1 else line
            if not text or text.isspace():
                continue
            text = text.removesuffix(b"\r")
        unpacked += len(text) + _LINE
        if unpacked > most:
            raise OSError(EFBIG, f"it unpacks to more than {_RATIO} times its size")
        yield number, text


def _whole_lines(file: Readable, most: float = math.inf) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines as `whole_lines` does; raise OSError once they take more than `most` bytes."""
    number = unpacked = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        unpacked += len(line) + _LINE
        if unpacked > most:
            raise OSError(EFBIG, f"it unpacks to more than {_RATIO} times its size")
        if line.endswith(b"\n") or len(line) < LONGEST_LINE:
            yield number, line.removeprefix(BOM_UTF8) if number == 1 else line
        else:
            _pass_over(file)
            yield number, None


def _pass_over(file: Readable) -> None:
    """Read the rest of a line that is too long."""
    while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
        pass
