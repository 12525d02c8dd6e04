"""With slots by time the place of a record decides nothing, for every setting of every kind of source.

A line is inserted, removed or changed at every place of a file whose slots are full and whose times tie: what
any slot holds stays the same, but for the record's own slot.
"""

import gzip
import json
import math
import types
from io import BytesIO, TextIOWrapper
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import BaseModel

from nodes.machine.slots import Arrival
from streams.mesh.file import MeshFileError
from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.labels import LabelValueSettings, LaterLabelsSettings
from streams.mesh.settings.node import (
    DialectSettings,
    FileSettings,
    LocalisationSettings,
    OutlierSettings,
    OwnSourceSettings,
    SourceSettings,
    TopicSettings,
)
from streams.mesh.settings.schema import (
    ColumnSettings,
    LabelSettings,
    MissingSettings,
    OriginSettings,
    SchemaSettings,
    TimestampSettings,
)
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseLabelSettings
from streams.records.sources import held_out, open_source
from streams.tools.feed.lines import FeedOptions, Lines, opened
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.sources import mesh_of, write_parquet

START, PERIOD, SIZE, ROUNDS = 100, 10, 2, 4
PERIODS = {"by": "time", "start": START, "period": PERIOD, "size": SIZE}
GIVEN = ("x", "label", "at", "u0", "u1", "u2")
"""The columns of a file without a header."""
WORDS = {"1": "even", "0": "odd"}
SCHEMA = {"features": {"x": "number"}, "label": {"column": "label"}, "timestamp": "at"}
BASE = {"kind": "json-lines", "path": "rows", "schema": SCHEMA}


class Row(NamedTuple):
    """A record. None as its time: it has none."""

    x: int
    label: int
    at: float | None

    @property
    def slot(self) -> int | None:
        """The slot of its own time, by the rule that the documentation states; None: none."""
        if self.at is None or not START <= self.at < START + ROUNDS * PERIOD:
            return None
        return math.floor((self.at - START) / PERIOD) + 1

    def fields(self) -> dict[str, float | None]:
        """Its columns; the last three are the truth, for losses of up to three coordinates."""
        return {"x": self.x, "label": self.label, "at": self.at, "u0": 1, "u1": 2, "u2": 3}


ROWS = [Row(k, k % 2, at) for k, at in enumerate((105, 102, 125, 105, 105, 113, 113, 139, 105), 1)]
"""Slot 1 has more than it holds, four at one instant; 2 is full, with a tie; 3 and 4 hold one each."""
NEW = [
    Row(21, 1, 105),
    Row(22, 0, 101),
    Row(23, 1, 113),
    Row(24, 0, 139.5),
    Row(25, 1, None),
    Row(26, 1, 1e9),
]

# A value or more for each setting that a source may have. A setting that is not here fails the first test.
VALUES: dict[type[BaseModel], dict[str, list[Any]]] = {
    FileSettings: {
        "kind": ["csv", "json-lines", "parquet"],
        "path": ["rows", "rows.gz", "-"],
        "schema": [],  # below
        "columns": [None, list(GIVEN)],
        "dialect": [],  # below
        "take": [],
        "shuffle": [False, True],
        "keep_back": [None, 0.3],
        "max_record_bytes": [None, 1, 50, 1 << 20],
        "labels": [],  # test_file_labels.py, and tests/streams/live/data/test_no_places_of_labels.py
    },
    TakeSettings: {"every": [1, 2, 3], "offset": [0, 1, 2]},
    SchemaSettings: {
        "features": [],
        "label": [],
        "intercept": [False, True],
        "norm": [None, 0.5],
        "timestamp": ["at", {"column": "at", "unit": "s"}],
        "missing": [None, ["3", "n"]],
        "truth": [None, True],
    },
    TimestampSettings: {
        "column": ["at"],
        "unit": ["s"],
        "format": [None],  # records of another time are tried in test_times.py
        "zone": [None, "Europe/Berlin"],
    },
    DialectSettings: {
        "delimiter": [",", ";"],
        "quote": ['"', "'", "none"],
        "decimal": [".", ","],
        "thousands": [None, "'"],
        "encoding": ["utf-8", "latin-1", "utf-16"],
        "line_breaks": [False],  # content decides where records lie: test_csv_records.py
    },
    MissingSettings: {"as": [0, "indicator"], "texts": [None, ["5"]]},
    LabelSettings: {
        "column": ["label"],
        "positive": [None, "1", ["1", "3"]],
        "negative": [None, "0"],
        "classes": [None, ["0", "1"]],
    },
    ColumnSettings: {
        "number": [True],
        "bounds": [[0, 5]],
        "log": [[1, 9]],
        "buckets": [[2, 4]],
        "categories": [["1", "2", "7"]],
        "hashed": [3],
        "hour": ["UTC"],
        "weekday": ["Europe/Berlin"],
        "missing": [],
        "format": [],
        "zone": [],
        "unit": [],
    },
    LibsvmSettings: {
        "kind": ["libsvm"],
        "path": ["rows"],
        "label": [],
        "norm": [None, 1],
        "take": [],
        "shuffle": [False, True],
        "keep_back": [None, 0.3],
        "max_record_bytes": [None, 50],
        "index_base": [0, 1],
    },
    CsrSettings: {
        "kind": ["csr"],
        "path": ["rows.npz"],
        "label": [],
        "norm": [None, 1],
        "take": [],
        "shuffle": [False, True],
        "keep_back": [None, 0.3],
        "max_record_bytes": [None, 50],
        "rows": [None, [0, 2]],
        "split": [None, 1],
    },
    SparseLabelSettings: {"positive": [None, 1], "negative": [None, 0]},
    OwnSourceSettings: {
        "kind": ["own"],
        "name": [None],
        "take": [],
        "shuffle": [False, True],
        "max_record_bytes": [None, 50],
    },
    LocalisationSettings: {
        "kind": ["localisation"],
        "position": [None, [3, 4]],
        "noise": [None, 0.5],
        "outliers": [],
        "dropouts": [0.0, 0.5],
        "reach": [None, 1.5],
        "first": [1, 3],
        "last": [None, 3],
        "truth": [False, True],
        "max_record_bytes": [None, 50],
    },
    OutlierSettings: {"share": [0.5], "excess": [2.0]},
}
TAKES = [None, *({"every": n, "offset": k} for n in VALUES[TakeSettings]["every"] for k in range(n))]
"""All of `take`: each offset below each `every`."""


def models(annotation: object) -> set[type[BaseModel]]:
    """The models of settings that a type is made of, and those of their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = (models(field.annotation) for field in annotation.model_fields.values())
        return {annotation}.union(*fields)
    if get_origin(annotation) is None and not isinstance(annotation, types.UnionType):
        return set()
    parts = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(models, parts))


def test_every_setting_of_every_source_is_tried():
    """A setting that is new must be given values here, or this fails.

    But for those of topics, which no run in one process reads: tests/streams/live/data/test_no_places.py.
    """
    named = {
        model: {field.alias or name for name, field in model.model_fields.items()} - {"from"}
        for model in models(SourceSettings)
        - {TopicSettings, BrokerSettings, RegistrySettings, OriginSettings}
        - {LaterLabelsSettings, LabelValueSettings}
    }
    assert named == {model: set(values) for model, values in VALUES.items()}
    assert {kind for model in VALUES for kind in VALUES[model].get("kind", ())} == {
        kind
        for model in named
        if "kind" in model.model_fields
        for kind in get_args(model.model_fields["kind"].annotation)
    }


def columns() -> list[Any]:
    """Every way in which a column becomes features."""
    ways = {name: values for name, values in VALUES[ColumnSettings].items() if values}
    return [
        "number",
        *({name: value} for name, (value,) in ways.items() if name != "number"),
        *(
            {name: value, "missing": {"as": substitute} | more}
            for name, (value,) in ways.items()
            for substitute in VALUES[MissingSettings]["as"]
            for more in ({}, {"texts": VALUES[MissingSettings]["texts"][1]})
        ),
    ]


def dialects() -> list[dict[str, Any]]:
    """Every setting of a dialect. A decimal comma goes with another delimiter, as no value is in quotes."""
    tries = [{key: value} for key, values in VALUES[DialectSettings].items() for value in values]
    return [one | ({"delimiter": ";"} if one.get("decimal") == "," else {}) for one in tries]


def labels() -> list[dict[str, Any]]:
    """Every label: a number, a sign, or a class."""
    tries = VALUES[LabelSettings]
    signs = [
        {"positive": positive} | ({} if negative is None else {"negative": negative})
        for positive in tries["positive"][1:]
        for negative in tries["negative"]
    ]
    return [{"column": "label"} | more for more in [{}, *signs, {"classes": tries["classes"][1]}]]


def sources() -> list[dict[str, Any]]:
    """The base of each kind of file, and each with one setting that differs."""
    tries, schema = VALUES[FileSettings], VALUES[SchemaSettings]
    found = []
    for kind in tries["kind"]:
        base = BASE | {"kind": kind}
        others = [
            {key: value}
            for key in ("path", "max_record_bytes", "shuffle", "keep_back")
            for value in tries[key][1:]
        ]
        others += [{"take": take} for take in TAKES[1:]]
        others += [{"columns": value} for value in tries["columns"][1:] if kind == "csv"]
        others += [{"dialect": dialect} for dialect in dialects() if kind == "csv"]
        inner = [{"features": {"x": column}} for column in columns()] + [
            {"label": label} for label in labels()
        ]
        inner += [
            {key: value} for key in ("intercept", "norm", "truth", "missing") for value in schema[key][1:]
        ]
        inner += [{"features": {"x": "number", "at": {"bounds": [0, 200]}}}]
        others += [{"schema": SCHEMA | one} for one in inner]
        unread = {"path": "-"}, {"path": "rows.gz"}
        found += [base | one for one in [{}, *others] if kind != "parquet" or one not in unread]
    return found


def tree_of(source: dict[str, Any], test: dict[str, Any] | None = None) -> dict[str, Any]:
    """A mesh that fits the source. Where it takes a part of the file, node b takes the next one."""
    source = json.loads(json.dumps(source))
    label, features = source["schema"]["label"], source["schema"]["features"]
    widths = {"hour": 24, "weekday": 7, "hashed": 3, "buckets": 3, "categories": 3}
    width = sum(widths.get(next(iter(column)), 1) for column in features.values())
    width += sum("indicator" in str(column) for column in features.values())
    width += source["schema"].get("intercept", False)
    loss = {"softmax": 2} if "classes" in label else "hinge" if "positive" in label else "squared"
    dimension = 2 * width if loss == {"softmax": 2} else width
    if source["schema"].get("truth"):
        source["schema"]["truth"] = [f"u{k}" for k in range(dimension)]
    take = source.get("take") or {"every": 1, "offset": 0}
    shared = {"dimension": dimension, "loss": loss, "rounds": ROUNDS, "topology": {"graph": "complete"}}
    tree = changed(**shared)
    tree["mesh"]["slots"] = PERIODS
    own = {"a": source}
    if take["every"] > 1 and source["path"] != "-":  # which one node alone may read
        own["b"] = source | {"take": take | {"offset": (take["offset"] + 1) % take["every"]}}
    tree["mesh"]["nodes"] = list(own)
    tree["nodes"] = {name: {"source": one} for name, one in own.items()}
    return tree if test is None else tree | {"held_out": test}


def write(folder, source, rows) -> bytes:
    """Write the rows as the file of a source; return its bytes."""
    kind, path = source["kind"], folder / source["path"].replace("-", "stdin")
    fields = [row.fields() for row in rows]
    if kind == "parquet":
        import pyarrow as pa  # noqa: PLC0415 # an extra

        kinds = dict.fromkeys(GIVEN, pa.float64()) | {"x": pa.int64(), "label": pa.int64()}
        write_parquet(path, {name: [one[name] for one in fields] for name in GIVEN}, kinds)
        return path.read_bytes()
    if kind == "csv":
        dialect = source.get("dialect") or {}
        between, point = dialect.get("delimiter", ","), dialect.get("decimal", ".")
        texts = [["" if one[name] is None else str(one[name]) for name in GIVEN] for one in fields]
        lines = [between.join(GIVEN)] if not source.get("columns") else []
        lines += [between.join(text.replace(".", point) for text in one) for one in texts]
    else:
        dialect, lines = {}, [json.dumps(one) for one in fields]
    content = "".join(f"{line}\n" for line in lines).encode(dialect.get("encoding", "utf-8"))
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return content


Slots = dict[tuple[str, str, int], tuple[bytes, ...]]


def contents(file, content: bytes, monkeypatch) -> Slots:
    """What each slot of each node holds: as `run` reads the source, and as `feed` sends it to a broker."""
    found: Slots = {}
    for name, own in file.nodes.items():
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
        lines = Lines(opened(file, name, FeedOptions()), 1 << 20)
        sent = {"feed": [(line.timestamp, line.value) for line in lines]}
        if own.source.path != "-":  # `run` refuses it
            sent["run"] = [(record.timestamp, record.value) for record in open_source(file, name, 0).records]
        for way, records in sent.items():
            slots = file.resolved.slots()
            for offset, (at, value) in enumerate(records):
                slots.add(Arrival(0, offset, -math.inf if at is None else at, value))
            for round in range(1, ROUNDS + 1):
                slots.open(round)
                found[way, name, round] = slots.take().values
    return found


def edits(rows):
    """Yield (rows, record before, record after), a line inserted, removed or changed at every place."""
    for k in range(len(rows) + 1):
        for new in NEW[k % 2 :: 2]:
            yield [*rows[:k], new, *rows[k:]], None, new
    for k, old in enumerate(rows):
        yield [*rows[:k], *rows[k + 1 :]], old, None
        moved = (old._replace(at=one.at) for one in NEW[k % 3 :: 3])
        for new in (old._replace(x=31), old._replace(at=None), *moved):
            yield [*rows[:k], new, *rows[k + 1 :]], old, new


def differing(before: Slots, after: Slots, old: Row | None, new: Row | None) -> set[tuple[str, str, int]]:
    """Check what may differ, and return what does."""
    changed_slots = {key for key in before if before[key] != after[key]}
    allowed = {row.slot for row in (old, new) if row is not None}
    assert {slot for _, _, slot in changed_slots} <= allowed, (old, new)
    for way in ("run", "feed"):
        nodes = {name for one, name, _ in changed_slots if one == way}
        assert len(nodes) <= (1 if old is None or new is None else 2), (old, new)
    return changed_slots


@pytest.mark.parametrize("source", sources(), ids=json.dumps)
def test_a_line_changes_no_slot_but_its_own(tmp_path, monkeypatch, source):
    if source.get("shuffle"):
        with pytest.raises(
            MeshFileError, match=r"source\.shuffle: true: slots by time take records by their times"
        ):
            loaded(tmp_path, tree_of(source))
        return
    file = loaded(tmp_path, tree_of(source))
    usual = contents(file, write(tmp_path, source, ROWS), monkeypatch)
    seen = set()
    for rows, old, new in edits(ROWS):
        other = contents(file, write(tmp_path, source, rows), monkeypatch)
        seen |= differing(usual, other, old, new)
    # a record of more bytes has no time that is read, so none is in a slot
    longest = source.get("max_record_bytes")
    if longest == 1 or (longest == 50 and source["kind"] == "json-lines"):
        assert not seen
    elif (source.get("take") or {"every": 1})["every"] < 3:  # else a third of the file is at nobody
        assert {slot for _, _, slot in seen} == {1, 2, 3, 4}
    else:
        assert seen


ROW = st.builds(
    Row,
    st.integers(1, 9),
    st.integers(0, 1),
    st.none() | st.integers(START - 5, START + ROUNDS * PERIOD + 5) | st.sampled_from([105, 105.5, 1e12]),
)


@st.composite
def any_source(draw):
    """A source with any values of all its settings that slots by time allow."""
    tries = VALUES[FileSettings]
    kind = draw(st.sampled_from(tries["kind"]))
    schema = SCHEMA | {
        "features": {"x": draw(st.sampled_from(columns()))},
        "label": draw(st.sampled_from(labels())),
    }
    schema |= {
        key: draw(st.sampled_from(VALUES[SchemaSettings][key])) for key in ("intercept", "norm", "missing")
    }
    given = {key: draw(st.sampled_from(tries[key])) for key in ("path", "max_record_bytes", "columns")}
    given["dialect"] = draw(st.sampled_from(dialects())) if kind == "csv" else None
    given["take"] = draw(st.sampled_from(TAKES))
    given |= {} if kind == "csv" else {"columns": None}
    wide = (given["dialect"] or {}).get("encoding") == "utf-16"  # refused in a pipe
    given |= {"path": "rows"} if kind == "parquet" or wide else {}
    return {key: value for key, value in (BASE | {"kind": kind, "schema": schema} | given).items() if value}


@given(any_source(), st.lists(ROW, max_size=12), st.data())
@examples(max_examples=150)
def test_nor_does_any_line_with_any_settings(tmp_path_factory, source, rows, data):
    folder = tmp_path_factory.mktemp("places")
    file = loaded(folder, tree_of(source))
    place = data.draw(st.integers(0, len(rows)))
    old = rows[place] if place < len(rows) and data.draw(st.booleans()) else None
    new = data.draw(ROW) if old is None else data.draw(st.none() | ROW)
    after = [*rows[:place], *([] if new is None else [new]), *rows[place + (old is not None) :]]
    with pytest.MonkeyPatch.context() as patched:
        usual, other = (contents(file, write(folder, source, one), patched) for one in (rows, after))
    differing(usual, other, old, new)


@pytest.mark.parametrize("kind", VALUES[FileSettings]["kind"])
@pytest.mark.parametrize("take", TAKES, ids=json.dumps)
def test_held_out_records_go_by_the_same_rule(tmp_path, kind, take):
    """A line more or less moves no other between learning and scoring, and none is in both."""
    source = BASE | {"kind": kind} | ({} if take is None else {"take": take})
    others = (
        [] if take is None else [take | {"offset": k} for k in range(take["every"]) if k != take["offset"]]
    )
    schema = SCHEMA | {"label": {"column": "x"}, "features": {"label": "number"}}
    tree = tree_of(BASE | {"kind": kind, "schema": schema}, source | {"schema": schema})

    def split(rows):
        write(tmp_path, source, rows)
        tested = held_out(loaded(tmp_path, tree))[1].tolist()
        learnt = []
        for other in others:
            own = BASE | {"kind": kind, "schema": schema, "take": other}
            file = loaded(tmp_path, tree | {"nodes": {"a": {"source": own}}})
            source_a = open_source(file, "a", 0)
            learnt += [source_a.decoder.decode(record.value)[1] for record in source_a.records]
        return tested, learnt

    rows = [Row(k, k % 2, 105) for k in range(1, 40)]
    tested, learnt = split(rows)
    assert sorted(tested + learnt) == [row.x for row in rows]
    more, rest = split([Row(99, 1, 105), *rows])
    assert [x for x in more if x != 99] == tested
    assert [x for x in rest if x != 99] == learnt


@pytest.mark.parametrize("kind", ["libsvm", "csr", "own"])
def test_other_kinds_have_no_times_whatever_their_settings(tmp_path, monkeypatch, kind):
    (model,) = (model for model in VALUES if kind in VALUES[model].get("kind", ()))
    slots = {"slots": PERIODS, "dimension": 2}
    for key, tries in VALUES[model].items():
        for value in [] if key in {"kind", "name", "path"} else [one for one in tries if one is not None]:
            with pytest.raises(MeshFileError, match="no times"):
                mesh_of(tmp_path, monkeypatch, kind, mesh=slots, **{key: value})


def test_a_reading_of_a_sensor_that_is_lost_moves_no_other(tmp_path):
    """Its records come from the seed, one a period; what takes some away leaves the others in their slots."""
    tries, lossy = VALUES[LocalisationSettings], {"dropouts": 0.5, "first": 3, "last": 3}

    def readings(**settings):
        tree = changed(nodes=["a"], loss="range", rounds=9, topology={"graph": "complete"})
        tree["mesh"]["slots"] = PERIODS
        tree["nodes"] = {"a": {"source": {"kind": "localisation", "last": 9} | settings}}
        file = loaded(tmp_path, tree)
        found = {}
        for record in open_source(file, "a", 0).records:
            found.setdefault(math.floor((record.timestamp - START) / PERIOD) + 1, []).append(record.value)
        return found

    usual = readings()
    assert sorted(usual) == list(range(1, 10))
    assert all(len(values) == 1 for values in usual.values())
    for key, value in (
        (key, value) for key, values in tries.items() for value in values if value is not None
    ):
        found = readings(**{key: value})
        expected = readings(**({} if key in lossy else {key: value, "last": 9}))
        assert all(expected[slot] == values for slot, values in found.items())
        assert (len(found) < 9) == (lossy.get(key) == value)
    assert sorted(
        readings(outliers={key: values[0] for key, values in VALUES[OutlierSettings].items()})
    ) == sorted(usual)


@pytest.mark.parametrize("kind", ["csv", "json-lines"])
def test_a_line_put_first_takes_no_mark_from_the_next(tmp_path, monkeypatch, kind):
    """A file that begins with a byte order mark: it was part of the first record, whose bytes so changed."""
    source = BASE | {"kind": kind} | ({"columns": list(GIVEN)} if kind == "csv" else {})
    source |= {"take": {"every": 2, "offset": 0}}
    file, marked = loaded(tmp_path, tree_of(source)), []
    for first in range(len(ROWS), -1, -1):
        content = b"\xef\xbb\xbf" + write(tmp_path, source, ROWS[first:])
        (tmp_path / source["path"]).write_bytes(content)
        marked.append(contents(file, content, monkeypatch))
    for first, (before, after) in enumerate(pairwise(marked), 1):
        assert differing(before, after, None, ROWS[-first]) or ROWS[-first].at == 105
