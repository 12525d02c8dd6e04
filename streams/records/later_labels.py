"""Labels that come later: the reader of their messages, and their table, which is private and only in memory.

For each partition of the labels' topic the table has four arrays: hashes of keys, times, labels, and whether
a record has used the label. That is 25 bytes a label, so 10 million labels need 250 MB. The hash is keyed,
with a key that is drawn at each start.

The label that counts for a record has the record's key, and a timestamp neither after the moment when the
record was due nor older than the window. Of several such labels the one with the newest timestamp counts; of
equal timestamps the latest in the log. A label counts for every record with its key, any number of times.
"""

import math
import secrets
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.values import BoolArray, FloatArray
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.records.avro import AvroFields, Path, Schemas, is_framed
from streams.records.columns import absent_words, labelled
from streams.records.decoder import json_fields
from streams.records.messages import MessageFields, field_at
from streams.records.notation import JSON, joined_word

Hashes = NDArray[np.uint64]
Times = NDArray[np.int64]
_LEAST = 1 << 16
"""The number of recent entries below which sorting them again is cheap."""
_SHARE = 8
"""Recent entries are merged if they are more than this fraction (one in so many) of the main entries."""
NONE = math.nan
"""The label of a message that withdraws a label."""


class KeyHash:
    """Hashes keys with a secret that is drawn here and never stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def __call__(self, word: str) -> int:
        """Return 64 bits of the keyed hash of a word."""
        digest = blake2b(word.encode(errors="surrogatepass"), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "little")


class _Sorted:
    """Entries sorted by hash. Entries of one hash are in the order in which they came."""

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(0, np.uint64)
        self.times: Times = np.empty(0, np.int64)
        self.labels: FloatArray = np.empty(0, np.float64)
        self.used: BoolArray = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self.hashes)

    def insert(self, later: "_Sorted") -> None:
        """Insert entries that came later than all of these."""
        places = np.searchsorted(self.hashes, later.hashes, side="right")
        self.hashes = np.insert(self.hashes, places, later.hashes)
        self.times = np.insert(self.times, places, later.times)
        self.labels = np.insert(self.labels, places, later.labels)
        self.used = np.insert(self.used, places, later.used)

    def drop(self, old: BoolArray) -> None:
        """Drop the entries that are `old`."""
        self.hashes, self.times = self.hashes[~old], self.times[~old]
        self.labels, self.used = self.labels[~old], self.used[~old]

    def newest(self, key: np.uint64, first: int, last: int) -> tuple[int, float] | None:
        """Return (time, label) of a key's newest entry from `first` to `last`, in ms; None: there is none."""
        first_place = np.searchsorted(self.hashes, key)
        times = self.times[first_place : np.searchsorted(self.hashes, key, side="right")]
        within = np.flatnonzero((first <= times) & (times <= last))
        if not within.size:
            return None
        self.used[first_place + within] = True
        backwards = within[::-1]
        place = backwards[np.argmax(times[backwards])]
        return int(times[place]), float(self.labels[first_place + place])


class _Partition:
    """The entries of one partition: most are sorted, the last ones are in order of arrival."""

    def __init__(self) -> None:
        self.main, self.recent = _Sorted(), _Sorted()
        self._hashes, self._times, self._labels = array("Q"), array("q"), array("d")

    def append(self, key: int, time: int, label: float) -> None:
        self._hashes.append(key)
        self._times.append(time)
        self._labels.append(label)
        if len(self._hashes) >= _LEAST * _SHARE:
            self.settle()

    def settle(self) -> None:
        """Sort the last entries into the others."""
        if not self._hashes:
            return
        hashes = np.frombuffer(self._hashes, np.uint64)
        order = np.argsort(hashes, kind="stable")
        later = _Sorted()
        later.hashes = hashes[order]
        later.times = np.frombuffer(self._times, np.int64)[order]
        later.labels = np.frombuffer(self._labels, np.float64)[order]
        later.used = np.zeros(len(order), np.bool_)
        self._hashes, self._times, self._labels = array("Q"), array("q"), array("d")
        self.recent.insert(later)
        if len(self.recent) >= max(_LEAST, len(self.main) // _SHARE):
            self.main.insert(self.recent)
            self.recent = _Sorted()

    def newest(self, key: np.uint64, first: int, last: int) -> tuple[int, float] | None:
        """Return (time, label) of a key's newest entry from `first` to `last`, in ms; None: there is none."""
        return max(
            filter(None, (part.newest(key, first, last) for part in (self.recent, self.main))),
            key=lambda entry: entry[0],
            default=None,
        )


class Wanted(NamedTuple):
    """A query for the label of a key with a time from `first` to `last`, in ms."""

    key: int
    first: int
    last: int


class LabelTable:
    """The labels of one node. Not for several threads at once."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = {}

    def __len__(self) -> int:
        """The number of labels, withdrawals included."""
        self._settle()
        return sum(len(part.main) + len(part.recent) for part in self._partitions.values())

    @property
    def bytes(self) -> int:
        """The bytes of all arrays."""
        self._settle()
        return sum(
            values.nbytes
            for part in self._partitions.values()
            for level in (part.main, part.recent)
            for values in (level.hashes, level.times, level.labels, level.used)
        )

    def add(self, partition: int, key: int, time: int, label: float) -> None:
        """Add the next label of a partition, or `NONE`; `time` in ms."""
        if partition not in self._partitions:
            self._partitions[partition] = _Partition()
        self._partitions[partition].append(key, time, label)

    def find(self, wanted: Sequence[Wanted]) -> FloatArray:
        """Return the labels that count, shape (n,); `NONE` where there is none."""
        self._settle()
        labels = np.full(len(wanted), NONE)
        parts = [part for _, part in sorted(self._partitions.items())]
        for number, (key, first, last) in enumerate(wanted):
            newest: tuple[int, float] | None = None
            for part in parts:
                entry = part.newest(np.uint64(key), first, last)
                if entry is not None and (newest is None or entry[0] >= newest[0]):
                    newest = entry
            if newest is not None:
                labels[number] = newest[1]
        return labels

    def unused(self, dues: Mapping[int, int]) -> tuple[int, int]:
        """Return how many labels came after the first record with their key was due, and how many no record
        has used.

        `dues`: by a key's hash the time, in ms, when the first record with this key was due.
        """
        self._settle()
        hashes = np.fromiter(dues, np.uint64, len(dues))
        order = np.argsort(hashes)
        hashes, moments = hashes[order], np.fromiter(dues.values(), np.int64, len(dues))[order]
        late = unused = 0
        for part in self._partitions.values():
            for level in (part.main, part.recent):
                unused += int(np.count_nonzero(~level.used))
                places = np.searchsorted(hashes, level.hashes)
                has_record = places < len(hashes)
                has_record[has_record] = hashes[places[has_record]] == level.hashes[has_record]
                late += int(np.count_nonzero(level.times[has_record] > moments[places[has_record]]))
        return late, unused

    def forget(self, time: int, since: int) -> int:
        """Drop the labels before a time, in ms.

        Return how many from `since` on were never used by a record.
        """
        self._settle()
        unused = 0
        for part in self._partitions.values():
            for level in (part.main, part.recent):
                old = level.times < time
                unused += int(np.count_nonzero(old & ~level.used & (level.times >= since)))
                if old.any():
                    level.drop(old)
        return unused

    def _settle(self) -> None:
        for part in self._partitions.values():
            part.settle()


class Label(NamedTuple):
    """A label that came later: the key of its records, and its value (`NONE` withdraws a label)."""

    key: str
    value: float


class LabelMessages:
    """Reads messages with labels of a schema that come later than their records. Total.

    `schemas`: the known schemas of a registry; None: no registry is needed. Raises NoRegistryExtra.
    """

    def __init__(self, settings: LaterLabelsSettings, schema: SchemaSettings) -> None:
        self._join, self._column = settings.join, settings.value.column
        self._split: MessageFields = json_fields
        self.schemas: Schemas | None = None
        if settings.format == "avro":
            names = (self._join,) if self._column is None else (self._join, self._column)
            single: Path = ()  # the path of a key that is one value
            fields = AvroFields([*(tuple(name.split(".")) for name in names), single])
            self._split, self.schemas = fields, fields.schemas
        self._read = labelled(schema.label, JSON, absent_words(schema.missing, JSON))
        self.constant = None if settings.value.constant is None else self._read(settings.value.constant)
        otherwise = self._read(settings.otherwise)
        self._otherwise = NONE if otherwise is None else otherwise  # the settings ensure it is a label

    def __call__(self, value: bytes | None, key: bytes | None) -> Label | None:
        """Return a message's label; None if it is unreadable. A message without a value withdraws a label."""
        try:
            return self._label(value, key)
        except Exception:  # noqa: BLE001 # a record stops nothing; the exception may show it
            return None

    def or_otherwise(self, labels: FloatArray) -> FloatArray:
        """Return the labels, with `otherwise` of the settings in place of missing ones."""
        return np.where(np.isnan(labels), self._otherwise, labels)

    def _label(self, value: bytes | None, key: bytes | None) -> Label | None:
        if not value:
            word = self._of_key(key)
            return None if word is None else Label(word, NONE)
        fields = self._split(value)
        if fields is None:
            return None
        word = joined_word(JSON, field_at(fields, self._join)) or self._of_key(key)
        label = self.constant if self._column is None else self._read(field_at(fields, self._column))
        return None if word is None or label is None else Label(word, label)

    def _of_key(self, key: bytes | None) -> str | None:
        """Return the word of a message's key: the value of the key's field with the column's name, or the
        whole key.
        """
        if key is None:
            return None
        if self.schemas is not None and not is_framed(key):  # text, whatever the value is
            return joined_word(JSON, key.decode())
        fields = self._split(key)
        return joined_word(JSON, self._split.single(key) if fields is None else field_at(fields, self._join))
