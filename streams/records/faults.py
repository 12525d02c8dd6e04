"""Names why a record does not decode, by the column and the kind of its fault, never by a value."""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from threading import Lock
from typing import Any, Literal, NamedTuple, TypedDict

from nodes.machine.slots import Place
from streams.mesh.settings.node import DialectSettings
from streams.mesh.settings.schema import ColumnSettings, LabelSettings, word
from streams.records.columns import Absent, cell, label_words, missing_test
from streams.records.notation import FILE, Notation, is_empty, is_missing, is_missing_label
from streams.records.times import TimeKeys, is_zoneless, moments


class Fault(NamedTuple):
    """A record's fault. `column` is None if the whole record is at fault."""

    column: str | None
    kind: str

    def __str__(self) -> str:
        """Return `amount: not a number`."""
        return self.kind if self.column is None else f"{self.column}: {self.kind}"


class NotARecord(Enum):
    """Why a message of a topic is no record by its owner's settings. This is no fault."""

    TOMBSTONE = "a tombstone"
    LEFT_OUT = "left out by where"


EMPTY, MISSING, NO_TIME, UNKNOWN = "empty", "missing", "no time that can be read", "cannot be decoded"
TWICE = "stands twice"
ZERO_BYTE = "begins with a zero byte, as a schema registry's frame does"
"""The fault of bytes that are no JSON, perhaps because their producer puts a registry's frame before them."""
_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+([eE][-+]?\d+)?\s*")
_NOT_FINITE = re.compile(r"\s*[-+]?(nan|inf|infinity)\s*", re.IGNORECASE)
_LABELS = re.compile(r"[^,]+(,[^,]+)+")
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
        common_faults = self.faults.most_common(_FEW)
        rest = self.malformed - sum(count for _, count in common_faults)
        lines = [f"{fault} ({count:,})" for fault, count in common_faults]
        return ", ".join([*lines, f"others ({rest:,})"] if rest else lines)


def number_fault(value: object, notation: Notation = FILE) -> str | None:
    """Return why a value is no number in that notation; None if it is one."""
    if value is None or value == "":
        return EMPTY
    if notation.number(value) is not None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return "not a number"
    if not isinstance(value, str) or notation.grammar.fullmatch(value) or _NOT_FINITE.fullmatch(value):
        return "not finite"
    if is_empty(value):
        return EMPTY
    return "a decimal comma" if not notation.marks and _COMMA.fullmatch(value) else "not a number"


def feature_fault(
    name: str,
    settings: ColumnSettings,
    notation: Notation,
    timestamp: TimeKeys | None,
    absent: Absent,
    value: object,
) -> str | None:
    """Return why a value gives no features; None if it does. Other parameters are those of `columns.cell`."""
    if cell(name, settings, notation, timestamp, absent)(value) is not None:
        return None
    test = missing_test(settings, notation, absent)
    if test is not None and test(value):
        return EMPTY if is_empty(value) else MISSING
    if settings.timed:
        return time_fault(value, notation, timestamp or settings) or "not in the years 1 to 9999"
    if settings.categories or settings.hashed:
        return EMPTY if is_empty(value) else "not a single value"
    return number_fault(value, notation)


def label_fault(
    settings: LabelSettings, value: object, notation: Notation = FILE, absent: Absent = None
) -> str | None:
    """Return why a value gives no label; None if it does."""
    listed = label_words(settings, notation)
    if absent is not None and is_missing(absent, listed, value):
        return EMPTY if is_empty(value) else MISSING
    if settings.positive is None and settings.classes is None:
        return number_fault(value, notation)
    allowed = settings.classes
    if settings.positive is not None and settings.negative is not None:
        allowed = (*settings.negative, *settings.positive)
    if listed.find(value) is not None:
        return None
    if is_missing_label(value):
        return EMPTY if is_empty(value) else MISSING
    if allowed is not None:
        return f"not one of {some_of(allowed)}"
    return "neither text nor a number" if word(value) is None else None


def time_fault(value: object, notation: Notation = FILE, keys: TimeKeys | None = None) -> str | None:
    """Return why a value gives no time; None if it does."""
    if is_empty(value):
        return EMPTY
    if moments(notation, keys)(value) is not None:
        return None
    if keys is not None and keys.format is not None:
        return "not a time of that format"
    if number_fault(value, notation) == "not finite":
        return "not finite"
    return "a time without a zone" if is_zoneless(value) else "not a time"


class CsvOptions(TypedDict):
    """The parameters of `csv.reader` for a dialect."""

    delimiter: str
    quotechar: str | None
    quoting: Literal[0, 3]
    strict: bool


def csv_options(dialect: DialectSettings) -> CsvOptions:
    """Return the parameters of `csv.reader` for a dialect."""
    quote = None if dialect.quote == "none" else dialect.quote
    quoting: Literal[0, 3] = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    return {"delimiter": dialect.delimiter, "quotechar": quote, "quoting": quoting, "strict": True}


def csv_fault(value: bytes, options: CsvOptions, encoding: str) -> str:
    """Return why a CSV record does not split into its columns."""
    unclosed = False

    def text() -> Iterator[str]:
        nonlocal unclosed
        yield value.decode(encoding)
        unclosed = True  # the reader asks for more

    try:
        next(reader := csv.reader(text(), **options))
        single_row = not unclosed and next(reader, None) is None
    except UnicodeDecodeError:
        return "not UTF-8" if encoding == "utf-8-sig" else f"not {encoding}"
    except (ValueError, csv.Error):
        return "a quote that is not closed" if unclosed else "not a line of CSV"
    return "wrong number of fields" if single_row else "not a line of CSV"


def json_fault(value: bytes, columns: Sequence[str] = ()) -> Fault:
    """Return why a line is no JSON object with distinct keys. It names only keys among the `columns`."""
    try:
        pairs = json.loads(value, object_pairs_hook=tuple)
    except UnicodeDecodeError:
        return Fault(None, ZERO_BYTE if value.startswith(b"\0") else "not UTF-8")
    except (ValueError, RecursionError):
        return Fault(None, ZERO_BYTE if value.startswith(b"\0") else "not JSON")
    if not isinstance(pairs, tuple):
        return Fault(None, "not a JSON object")
    keys = Counter(key for key, _ in pairs)
    return next((Fault(name, TWICE) for name in columns if keys[name] > 1), Fault(None, f"a key {TWICE}"))


def sparse_fault(value: bytes, allowed: Sequence[float] | None, base: int, dimension: int) -> Fault:
    """Return why a libsvm line does not decode. `allowed`: the labels, if only some are."""
    first, *pairs = value.split() or [b""]
    label = number_fault(_text(first))
    if label is not None and _LABELS.fullmatch(_text(first)):
        label = "more than one label"
    if label is None and allowed is not None and float(first) not in allowed:
        label = f"not one of {some_of([f'{label_value:g}' for label_value in allowed])}"
    if label is not None:
        return Fault("label", label)
    split = [_text(pair).split(":") for pair in pairs]
    if any(len(parts) != 2 or not re.fullmatch(r"[-+]?[0-9]+", parts[0]) for parts in split):
        return Fault(None, "not index:value")
    indices = [int(index[:_DIGITS]) - base for index, _ in split]
    if any(not 0 <= index < dimension for index in indices):
        return Fault("index", f"not from {base} to {dimension - 1 + base}")
    if any(index <= before for before, index in pairwise(indices)):
        return Fault("index", "not above the one before it")
    fault = next((kind for _, value in split if (kind := number_fault(value)) is not None), None)
    return Fault(None, UNKNOWN) if fault is None else Fault("value", fault)


def _text(part: bytes) -> str:
    return part.decode("ascii", "replace")


def some_of(words: Sequence[str]) -> str:
    """Return the words; of many words only the first few."""
    text = ", ".join(words[:_FEW])
    return text if len(words) <= _FEW else f"{text} and {len(words) - _FEW:,} more"


# Letters about the records that a node could not read, for its owner alone. They have place and reason, never
# a value.
#
# For each reason there is at most one letter a second, and a summary at the end of the process. Each letter
# has the totals of its process, so the newest letters give the counts of a process that was killed.

EACH = 1.0
"""Seconds between two letters for one reason."""
_SUMMED, _SUMMARY, _ESCAPED = 100, 48_000, 6
"""The most reasons in a summary, the commonest first; the most bytes of all as JSON; the most bytes of a
character."""
Letter = dict[str, Any]


@dataclass(slots=True)
class _Waiting:
    """Faults for one reason that are in no letter yet: the first and last offset, and their number."""

    partition: int
    first: int
    last: int
    count: int = 0


class FaultLetters:
    """The letters of one process on a node's records. `life`: the process's life; `clock` is monotonic."""

    def __init__(self, topic: str, run: str, life: str, clock: Callable[[], float]) -> None:
        self._topic, self._head, self._clock = topic, {"run": run, "life": life}, clock
        self._counts, self._lock = FaultCounts(), Lock()
        self._waiting: dict[Fault, _Waiting] = {}
        self._sent: dict[Fault, float] = {}

    def count(self, places: Sequence[Place], faults: Sequence[Fault | None]) -> list[Letter]:
        """Count records at these places; return the letters that are due."""
        with self._lock:
            if not any(faults):
                self._counts.records += len(faults)
                return []
            letters = []
            for (partition, offset), fault in zip(places, faults, strict=True):
                self._counts.add(fault)
                if fault is not None:
                    waiting = self._waiting.get(fault)
                    if waiting is None or waiting.partition != partition:
                        waiting = self._waiting[fault] = _Waiting(partition, offset, offset)
                    waiting.last, waiting.count = offset, waiting.count + 1
            now = self._clock()
            for fault in [fault for fault in self._waiting if now - self._sent.get(fault, -math.inf) >= EACH]:
                self._sent[fault] = now
                letters.append(self._letter(fault, self._waiting.pop(fault)))
            return letters

    def summary(self) -> list[Letter]:
        """Return the last letter of the process; none if it could read all records."""
        with self._lock:
            if not self._counts.malformed:
                return []
            faults, room = dict[str, int](), _SUMMARY
            for fault, count in self._counts.faults.most_common(_SUMMED):
                room -= _ESCAPED * len(str(fault))
                if room < 0:
                    break
                faults[str(fault)] = count
            further = self._counts.malformed - sum(faults.values())
            faults |= {"others": further} if further else {}
            return [self._head | {"topic": self._topic, "read": self._counts.records, "faults": faults}]

    def _letter(self, fault: Fault, waiting: _Waiting) -> Letter:
        place = {"topic": self._topic, "partition": waiting.partition}
        total = {"total": self._counts.faults[fault], "read": self._counts.records}
        offsets = {"offsets": [waiting.first, waiting.last], "records": waiting.count}
        return self._head | place | offsets | {"reason": str(fault)} | total


def counts_of(letters: Iterable[bytes], run: str) -> FaultCounts:
    """Return the counts in the letters of all processes of a run. Total: it skips other bytes."""
    lives: dict[str, tuple[int, dict[str, int]]] = {}
    for value in letters:
        try:
            letter = json.loads(value)
            if letter["run"] != run:
                continue
            record_count, faults = lives.get(letter["life"], (0, {}))
            new = letter["faults"] if "faults" in letter else {letter["reason"]: letter["total"]}
            lives[letter["life"]] = max(record_count, int(letter["read"])), _larger(faults, new)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    counts = FaultCounts()
    for record_count, faults in lives.values():
        counts.records += record_count
        counts.malformed += sum(faults.values())
        for reason, count in faults.items():
            counts.faults[Fault(None, reason)] += count
    return counts


def _larger(faults: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    return dict(faults) | {str(key): max(int(count), faults.get(key, 0)) for key, count in new.items()}
