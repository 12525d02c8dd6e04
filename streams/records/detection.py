"""Proposes the dialect of a CSV file from its first bytes, by detectors of an extra, for an owner to confirm.

Its results depend on records, so no code that learns calls it. Only `check` and `schema` do.
"""

import codecs
import csv
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from streams.mesh.errors import told_once
from streams.mesh.file import AnyFile
from streams.mesh.settings.node import THOUSANDS, DialectSettings, FileSettings, is_delimiter, is_utf8
from streams.records.faults import csv_options
from streams.records.lines import opened

FIRST = 1 << 16
"""The number of a file's first bytes that are examined, after unpacking."""
NO_DETECTORS = (
    "needs clevercsv and charset-normalizer, which are not installed: pip install 'mirrormesh[detect]'"
)


class NoDetectors(Exception):
    """The packages that detect dialects are missing."""

    def __init__(self) -> None:
        super().__init__(NO_DETECTORS)


def detected_dialect(path: str) -> DialectSettings:
    """Return the dialect that the first lines of a file look like.

    Raises NoDetectors, and OSError, EOFError or zlib.error if the file cannot be read.
    """
    try:
        import charset_normalizer  # noqa: PLC0415 # an extra
        import clevercsv  # noqa: PLC0415 # an extra
    except ImportError:
        raise NoDetectors from None
    content = _first_bytes(path)
    encoding = _encoding(content, charset_normalizer)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(content).removeprefix("\ufeff")
    if len(content) == FIRST:
        text = text[: text.rfind("\n") + 1] or text
    dialect = _shape(text, clevercsv).model_copy(update={"encoding": encoding})
    rows = list(_rows(text, dialect))
    over_lines = any("\n" in value for row in rows if len(row) == len(rows[0]) for value in row)
    decimal, thousands = _marks(chain.from_iterable(rows[1:]))
    changes = {"decimal": decimal, "thousands": thousands, "line_breaks": over_lines}
    return DialectSettings.model_validate(dialect.model_dump() | changes)


def _first_bytes(path: str) -> bytes:
    with closing(opened(path)) as file:
        return file.read(FIRST)


def differences(dialect: DialectSettings) -> dict[str, Any]:
    """Return the settings of a dialect that differ from the usual ones, and so must be written."""
    return dialect.model_dump(exclude_defaults=True)


def proposals(file: AnyFile) -> list[str]:
    """Return a line for each CSV file of the sources and of held-out records that looks like another dialect.

    Files that cannot be read are passed over.
    """
    sources: dict[tuple[str, ...], object] = {
        (file.part, name, "source"): part.source for name, part in file.owns.items()
    }
    lines = list[str]()
    for place, settings in (sources | {("held_out",): file.held_out}).items():
        text = proposal(settings)
        lines += file.refuse((*place, "dialect"), text).lines if text else ()
    return told_once(lines)


def proposal(settings: object) -> str:
    """Return the dialect that a CSV file seems to have; nothing if it is the dialect of its source."""
    if not isinstance(settings, FileSettings) or settings.kind != "csv":
        return ""
    path = settings.path or "-"
    if not Path(path).is_file():
        return ""
    try:
        dialect = detected_dialect(path)
    except NoDetectors as error:
        return f"check proposes it by its detectors: {error}"
    except (OSError, EOFError, zlib.error):
        return ""
    if differences(dialect) == differences(settings.dialect or DialectSettings()):
        return ""
    if not _first_bytes(path).strip():
        return ""
    return f"the first {FIRST >> 10} KiB of {path} look like {as_text(dialect)}: must be that if it is right"


def misread_utf8(settings: object) -> str:
    """Return a line if a CSV file is UTF-8 and its dialect names an encoding of one byte a character.

    Each of its records can then be read, but with two or more characters in place of one. Returns nothing
    otherwise.
    """
    if not isinstance(settings, FileSettings) or settings.dialect is None or settings.path is None:
        return ""
    encoding = settings.dialect.encoding
    if is_utf8(encoding) or len(_BEYOND_ASCII.decode(encoding, "replace")) < len(_BEYOND_ASCII):
        return ""
    try:
        content = _first_bytes(settings.path)
    except (OSError, EOFError, zlib.error):
        return ""
    if content.isascii() or not _decodes(content, "utf-8"):
        return ""
    text = f"the first {FIRST >> 10} KiB of {settings.path} are UTF-8 with characters beyond ASCII"
    return f"{text}, and are read as {encoding}: must be without that encoding if it is right"


_BEYOND_ASCII = bytes(range(128, 256))


def as_text(dialect: DialectSettings) -> str:
    """Return a dialect as a mesh file has it, in one line."""
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in differences(dialect).items()}
    return f"dialect: {{{', '.join(f'{key}: {value}' for key, value in values.items())}}}"


_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OF_SEVERAL_BYTES = {"cp932": "shift_jis", "gb18030": "gb18030", "cp949": "cp949", "big5": "big5"}


def _encoding(content: bytes, detector: Any) -> str:
    """Return the encoding: by a byte order mark; as UTF-8 or UTF-16 if the bytes are; else by the detector.

    Among encodings of one byte a character it is always cp1252, as a table has too few words to tell these
    apart.
    """
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            return encoding
    if _decodes(content, "utf-8"):
        return "utf-8"
    zeros = content[::2].count(0), content[1::2].count(0)
    if max(zeros) * 4 > len(content) // 2 > 0:
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    odd = b"\n".join(line for line in content.split(b"\n") if not line.isascii())
    best = detector.from_bytes(odd, cp_isolation=[*_OF_SEVERAL_BYTES, "cp1250", "cp1252", "mac_roman"]).best()
    if best is not None and best.encoding in _OF_SEVERAL_BYTES:
        return _OF_SEVERAL_BYTES[best.encoding]
    return "cp1252" if _decodes(content, "cp1252") else "latin-1"


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError:
        return False
    return True


def _shape(text: str, detector: Any) -> DialectSettings:
    """Return the delimiter and the quote; the usual ones where no others are detected."""
    try:
        shape = detector.Detector().detect(text)
    except Exception:  # noqa: BLE001 # odd text; the exception may show it
        shape = None
    delimiter, quote = (None, None) if shape is None else (shape.delimiter, shape.quotechar)
    changes = {"delimiter": delimiter} if isinstance(delimiter, str) and is_delimiter(delimiter) else {}
    changes |= {"quote": quote} if quote == "'" and quote != delimiter else {}
    return DialectSettings.model_validate(changes)


def _rows(text: str, dialect: DialectSettings) -> Iterator[Sequence[str]]:
    """Yield the rows before the first broken row."""
    options = csv_options(dialect)
    options["strict"] = False
    try:
        yield from (row for row in csv.reader(StringIO(text, newline=""), **options) if row)
    except csv.Error:
        return


_GROUPED = re.compile(r"[-+]?\d{1,3}(?:([.,'\u2019 \xa0\u202f])\d{3})(?:\1\d{3})*(?:([.,])\d+)?", re.ASCII)
_PLAIN = re.compile(r"[-+]?\d*([.,])\d+", re.ASCII)


def _marks(values: Iterator[str]) -> tuple[str, str | None]:
    """Return the marks of decimals and of thousands, by the numbers that have only one reading."""
    decimals, groups = Counter[str](), Counter[tuple[str, str | None]]()
    for value in values:
        text = value.strip(" \t")
        grouped, plain = _GROUPED.fullmatch(text), _PLAIN.fullmatch(text)
        if grouped is not None and grouped[1] != grouped[2]:
            groups[grouped[1], grouped[2]] += 1
            decimals.update([grouped[2]] if grouped[2] else [])
        elif plain is not None:
            decimals[plain[1]] += 1
    decimal = "," if decimals[","] > decimals["."] else "."
    # 1,234 alone may be a number with three decimals. A mark separates groups if it occurs in one number with
    # the other mark, or if the other mark is known to be the decimal mark and this one never is.
    is_sure = decimals[decimal] > 0
    sure = Counter(
        mark
        for mark, point in groups.elements()
        if point == decimal or mark not in ".," or (is_sure and point is None and not decimals[mark])
    )
    best = next((mark for mark, _ in sure.most_common(1) if mark != decimal and mark in THOUSANDS), None)
    return decimal, best
