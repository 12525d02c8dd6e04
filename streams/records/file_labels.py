"""Labels in a file that come later than their records. The file is read whole, and labels are found by a
record's key and time.

The file is of the kind and dialect of the records' file. The rule for the label that counts is that of a
topic (`records.later_labels`). The column `came` replaces Kafka's timestamp, and the record's own time
replaces that of its partition. So a record's label does not depend on other records. Of labels that came at
the same moment the last in the file is the newest. Without `came` all labels count, and the last in the file
is the newest.
"""

from collections.abc import Mapping

from streams.mesh.errors import ABSENT, MeshFileError
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.schema import ColumnSettings
from streams.records.decoder import FileLabelCounts
from streams.records.later_labels import KeyHash, LabelMessages, LabelTable, Wanted
from streams.records.schema_files import Refuser, opened_file

_WITHOUT_TIME = 0
"""The time in the table of labels whose file has no times."""


class FileLabels:
    """The labels of one file. Raises MeshFileError, which names `path`, that of the source in `file`.

    `timed`: labels have times. A call returns the label of a record with this key and time.
    """

    def __init__(
        self, file: Refuser, source: FileSettings, labels: LaterLabelsSettings, path: tuple[str, ...]
    ) -> None:
        self._settings, self.timed = labels, labels.came is not None
        self._table, self._hash = LabelTable(), KeyHash()
        self._came = self._unreadable = 0
        self._due = dict[int, int]()
        self._messages = LabelMessages(labels, source.record)
        self._read(_LabelFile(file, path, _keys(labels)), source, path)

    def __call__(self, key: str, time: float | None) -> float:
        """Return the label of a record with this key and time, in seconds since 1970."""
        hashed, first, due = self._hash(key), _WITHOUT_TIME, _WITHOUT_TIME
        if self.timed and time is not None:
            first = round((time - self._settings.before) * 1e3)
            due = round((time + self._settings.after) * 1e3)
        self._due[hashed] = min(due, self._due.get(hashed, due))
        return float(self._messages.or_otherwise(self._table.find([Wanted(hashed, first, due)]))[0])

    @property
    def counts(self) -> FileLabelCounts:
        """The counts of the labels, given the records that were read so far. For the owner alone."""
        late, unmatched = self._table.unused(self._due)
        return FileLabelCounts(self._came, self._unreadable, late, unmatched)

    def _read(self, file: "_LabelFile", source: FileSettings, path: tuple[str, ...]) -> None:
        labels = self._settings
        settings = _source(source, labels)
        needed = _keys(labels)
        lines, decoder = opened_file(file, settings, (*path, "labels"), needed, tuple(needed))
        constant = None if labels.value.constant is None else self._messages.constant
        for line in lines:
            key = decoder.key(line, labels.join)
            label = decoder.label(line) if constant is None else constant
            time = decoder.timestamp(line) if self.timed else 0.0
            if key is None or label is None or time is None:
                self._unreadable += 1
            else:
                self._came += 1
                self._table.add(0, self._hash(key), round(time * 1e3), label)


def _source(source: FileSettings, labels: LaterLabelsSettings) -> FileSettings:
    """Return the settings by which the file of labels is read."""
    record = source.record
    label = record.label.model_copy(update={"column": labels.value.column or record.label.column})
    # a schema needs a feature; this one is never read
    features = {labels.join: ColumnSettings(number=True)}
    schema = record.with_own_labels().model_copy(
        update={"features": features, "label": label, "timestamp": labels.came, "truth": None}
    )
    changes = {"path": labels.path, "record": schema, "columns": None, "take": None, "labels": None}
    plain = {key: value for key, value in source if key in FileSettings.model_fields}
    return FileSettings.model_construct(**plain | changes | {"shuffle": False})


def _keys(labels: LaterLabelsSettings) -> dict[str, tuple[str, ...]]:
    """Return the columns that a file of labels must have, with the key of the settings that names each."""
    columns: dict[str, tuple[str, ...]] = {labels.join: ("join",)}
    if labels.value.column is not None:
        columns[labels.value.column] = ("value", "column")
    if labels.came is not None:
        columns[labels.came.column] = ("came",)
    return columns


class _LabelFile:
    """Makes errors about a file of labels by the settings' keys that name its columns."""

    def __init__(self, file: Refuser, path: tuple[str, ...], keys: Mapping[str, tuple[str, ...]]) -> None:
        self._file, self._path, self._keys = file, path, keys

    @property
    def dimension(self) -> int:
        """The number of a decision's coordinates that the loss sees."""
        return self._file.dimension

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path`."""
        match path[len(self._path) + 1 :]:
            case ("schema",):
                path = (*self._path, "labels", *self._keys.get(str(value), ()))
            case ("dialect" | "kind" | "columns", *_) as key:
                path = (*self._path, *key)
        return self._file.refuse(path, allowed, value)
