"""Names why a record does not decode, by the column and the kind of its fault, never by a value."""

import csv
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from streams.mesh.settings.schema import ColumnSettings, LabelSettings, spelt
from streams.records.columns import cell, moment, number


class Fault(NamedTuple):
    """A record's fault. `column` None: of the whole record."""

    column: str | None
    kind: str

    def __str__(self) -> str:
        """Return `amount: not a number`."""
        return self.kind if self.column is None else f"{self.column}: {self.kind}"


EMPTY, MISSING, NO_TIME, UNKNOWN = "empty", "missing", "no time that can be read", "cannot be decoded"
_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+([eE][-+]?\d+)?\s*")
_NOTABLE = 0.01
_FEW, _DIGITS = 6, 40  # int() reads no more than some thousand digits


class FaultCounts:
    """Counts records and their faults. A private figure: for the owner of the records alone."""

    def __init__(self) -> None:
        self.records = self.malformed = 0
        self.faults = Counter[Fault]()

    def add(self, fault: Fault | None) -> None:
        """Count a record, and its fault if it has one."""
        self.records += 1
        if fault is not None:
            self.malformed += 1
            self.faults[fault] += 1

    @property
    def share(self) -> float:
        """The share of records with a fault, from 0 to 1."""
        return self.malformed / max(1, self.records)

    @property
    def notable(self) -> bool:
        """Whether more than 1 % of the records have a fault: that is worth a line."""
        return self.share > _NOTABLE

    @property
    def mostly(self) -> bool:
        """Whether more than half of the records have a fault."""
        return 2 * self.malformed > self.records

    def __str__(self) -> str:
        """Return the commonest faults, `amount: not a number (87), label: not one of no, yes (13)`."""
        most = self.faults.most_common(_FEW)
        rest = self.malformed - sum(count for _, count in most)
        lines = [f"{fault} ({count:,})" for fault, count in most]
        return ", ".join([*lines, f"others ({rest:,})"] if rest else lines)


def number_fault(value: object) -> str | None:
    """Return why `columns.number` reads no number; None if it does."""
    if value is None or value == "":
        return EMPTY
    if number(value) is not None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return "not a number"
    try:
        float(value)
    except OverflowError:
        return "not finite"
    except ValueError:
        return "a decimal comma" if _COMMA.fullmatch(str(value)) else "not a number"
    return "not finite"


def feature_fault(settings: ColumnSettings, value: object) -> str | None:
    """Return why a value gives no features; None if it does. Categories take any value."""
    if settings.hour is None and settings.weekday is None:
        return None if settings.categories or settings.hashed else number_fault(value)
    kind = time_fault(value)
    return "not in the years 1 to 9999" if kind is None and cell("", settings)(value) is None else kind


def label_fault(settings: LabelSettings, value: object) -> str | None:
    """Return why a value gives no label; None if it does."""
    if settings.positive is None and settings.classes is None:
        return number_fault(value)
    allowed = settings.classes
    if settings.positive is not None and settings.negative is not None:
        allowed = (*settings.negative, *settings.positive)
    text = spelt(value)
    if text is not None and (allowed is None or text in allowed):
        return None
    if value is None or value == "":
        return EMPTY
    return "neither text nor a number" if allowed is None else f"not one of {some_of(allowed)}"


def time_fault(value: object) -> str | None:
    """Return why a value gives no time; None if it does."""
    if value is None or value == "":
        return EMPTY
    if moment(value) is not None:
        return None
    if number_fault(value) == "not finite":
        return "not finite"
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    return "a time without a zone" if parsed is not None and parsed.tzinfo is None else "not a time"


def csv_fault(value: bytes) -> str:
    """Return why a line of CSV has not the fields that it should."""
    try:
        rows = list(csv.reader([value.decode("utf-8-sig")], strict=True))
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, csv.Error):
        return "not a line of CSV"
    return "wrong number of fields" if len(rows) == 1 else "not a line of CSV"


def json_fault(value: bytes) -> str:
    """Return why a line is no JSON object."""
    try:
        json.loads(value)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return "not a JSON object"


def sparse_fault(value: bytes, allowed: Sequence[float] | None, base: int, dimension: int) -> Fault:
    """Return why a libsvm line does not decode. `allowed`: the labels, if only some are."""
    first, *pairs = value.split() or [b""]
    label = number_fault(_text(first))
    if label is None and allowed is not None and float(first) not in allowed:
        label = f"not one of {some_of([f'{label_value:g}' for label_value in allowed])}"
    if label is not None:
        return Fault("label", label)
    split = [_text(pair).split(":") for pair in pairs]
    if any(len(parts) != 2 or not re.fullmatch(r"[-+]?\d+", parts[0]) for parts in split):
        return Fault(None, "not index:value")
    indices = [int(index[:_DIGITS]) - base for index, _ in split]
    if any(not 0 <= index < dimension for index in indices):
        return Fault("index", f"not from {base} to {dimension - 1 + base}")
    if any(index <= before for before, index in pairwise(indices)):
        return Fault("index", "not above the one before it")
    fault = next((kind for _, value in split if (kind := number_fault(value)) is not None), None)
    return Fault(None, UNKNOWN) if fault is None else Fault("value", fault)


def _text(part: bytes) -> str:
    return part.decode("ascii", "replace").replace("_", "?")  # Python would read 1_0 as ten


def some_of(words: Sequence[str]) -> str:
    """Return the words, only the first few if there are many."""
    text = ", ".join(words[:_FEW])
    return text if len(words) <= _FEW else f"{text} and {len(words) - _FEW:,} more"
