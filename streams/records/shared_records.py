"""Finds nodes of a mesh file that may share records, from their sources and by comparing files.

Files are compared by path, then by size, then by content, in memory. Nothing of their content is stored or
shown. The rows of data frames are compared in the same way. Records from a broker, standard input, a
generator or a user's own code are not checked.
"""

import stat
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from streams.mesh.compatibility import part_of
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.node import FileSettings, FrameSettings, NodeSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.records.csv_records import csv_records
from streams.records.lines import is_packed, opened
from streams.records.parquet import NoPyarrow, NotParquet, parquet_rows

_PIECE = 1 << 16
_BEGINNING = 1 << 12
"""The number of bytes that are compared first. Only files that begin alike are compared whole."""


def shared_records(nodes: Mapping[str, NodeSettings], *, by_time: bool) -> dict[str, list[str]]:
    """Return, for each node that may share records, the nodes it may share them with, in the file's order.

    `by_time`: whether slots go by time, so that parts of a file are chosen by content.
    """
    groups = _same_content(
        {name: path for name, settings in nodes.items() if (path := _file(settings)) is not None}
    )
    shared: dict[str, list[str]] = {}
    for names in groups:
        parts = {name: part_of(nodes[name].source, by_time=by_time) for name in names}
        for name in names:
            overlapping = [
                member for member in names if member != name and parts[name].overlaps(parts[member])
            ]
            if overlapping:
                shared[name] = overlapping
    return {name: shared[name] for name in nodes if name in shared}


def _file(own: NodeSettings) -> Path | None:
    """Return the regular file that the node reads; None for pipes, unreachable paths and files without a
    record.
    """
    source = own.source
    if not isinstance(source, FileSettings | LibsvmSettings | CsrSettings) or source.path in {None, "-"}:
        return None
    return Path(source.path) if _is_file(source.path) and not has_header_alone(source) else None


def has_header_alone(source: object) -> bool:
    """Return whether the source's file exists, and has no record below its header or schema.

    Two such files are equal, and share no record, so they do not count as shared. Otherwise one additional
    record in either file would change what is reported of both.
    """
    if not isinstance(source, FileSettings) or source.path in {None, "-"} or not _is_file(source.path):
        return False  # a pipe that was read to its end would block for ever
    with suppress(OSError, EOFError, zlib.error, NoPyarrow, NotParquet):
        if source.kind == "parquet":
            return parquet_rows(source.path) == 0
        if source.kind == "csv" and source.columns is None and source.dialect is not None:
            with closing(csv_records(source.path, source.dialect, None, LONGEST_LINE)) as records:
                return len(list(islice(records, 2))) == 1
        if source.kind == "csv" and source.columns is None:
            with opened(source.path) as file:
                return file.readline(_PIECE).endswith(b"\n") and not file.read(1)
    return False


def _same_content(files: Mapping[str, Path]) -> list[list[str]]:
    """Return groups of nodes that read the same bytes, unpacked."""
    identities: dict[tuple[int, int], list[str]] = {}
    for name, path in files.items():
        status = path.stat()
        identities.setdefault((status.st_dev, status.st_ino), []).append(name)
    beginnings: dict[bytes, list[list[str]]] = {}
    for names in identities.values():
        path = files[names[0]]
        beginning = next(_content(path, _BEGINNING), b"")
        alike = beginnings.setdefault(beginning, []) if beginning else []
        equal_group = next((group for group in alike if _equal(files[group[0]], path)), None)
        if equal_group is None:
            alike.append(names)
        else:
            equal_group += names
    return [group for groups in beginnings.values() for group in groups]


def same_files(paths: Iterable[str], others: Iterable[str]) -> list[set[str]]:
    """Return groups of paths of existing files with equal content. Each group has some of `paths`.

    Of `others` only files are read that may, by their size, be equal to one of `paths`.
    """
    files = {path: Path(path) for path in paths if _is_file(path)}
    sizes = {path.stat().st_size for path in files.values()}
    packed = any(map(is_packed, files))
    for path in others:
        alike = packed or is_packed(path) or (_is_file(path) and Path(path).stat().st_size in sizes)
        if alike and path not in files and _is_file(path):
            files[path] = Path(path)
    return [set(group) for group in _same_content(files)] if len(files) > 1 else []


def same_frames(sources: Iterable[FrameSettings]) -> list[set[str]]:
    """Return groups of keys of records in memory whose columns that are read are equal.

    Frames of which different columns are read are not compared. Frames without a row share nothing.
    """
    by_shape: dict[tuple[int, frozenset[str]], list[list[FrameSettings]]] = {}
    for source in sources:
        shape = source.in_memory.rows, frozenset(source.record.columns)
        alike = by_shape.setdefault(shape, []) if source.in_memory.rows else []
        equal_group = next((group for group in alike if _equal_rows(group[0], source)), None)
        if equal_group is None:
            alike.append([source])
        else:
            equal_group.append(source)
    groups = [{source.in_memory.key for source in group} for alike in by_shape.values() for group in alike]
    return [keys for keys in groups if len(keys) > 1]


def _equal_rows(one: FrameSettings, other: FrameSettings) -> bool:
    """Return whether two frames with equally many rows are equal in the columns that are read."""
    if one.in_memory.key == other.in_memory.key:
        return True
    columns = sorted(one.record.columns)
    pairs = zip(one.in_memory.lines(columns), other.in_memory.lines(columns), strict=True)
    return all(row == other_row for row, other_row in pairs)


def _is_file(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(Path(path).stat().st_mode)
    return False


def _equal(one: Path, other: Path) -> bool:
    plain = not (is_packed(str(one)) or is_packed(str(other)))
    if plain and one.stat().st_size != other.stat().st_size:
        return False
    with closing(_content(one, _PIECE)) as one_pieces, closing(_content(other, _PIECE)) as other_pieces:
        while (piece := next(one_pieces, b"")) == next(other_pieces, b""):
            if not piece:
                return True
    return False


def _content(path: Path, size: int) -> Generator[bytes]:
    """Yield the file's content, unpacked, up to where it cannot be read, which loading the file reports."""
    with suppress(OSError, EOFError, zlib.error), opened(str(path)) as file:
        while piece := file.read(size):
            yield piece
