"""Records in memory: the same records, and so the same releases, as of a file that holds the same rows."""

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mirrormesh
from mirrormesh import Named, UsageError
from streams.ledger import data_of
from streams.records.faults import Fault, FaultCounts
from streams.records.frames import with_records
from streams.records.schema_files import opened_file
from streams.records.sources import decoded, open_source
from tests.support.collaborations.folders import write as write_collaboration

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

ROWS = 240
MESH = """
mesh:
  name: payments
  run: run-1
  nodes: [north, south]
  dimension: 6
  algorithm: {{name: dpdo-nc, constraint: {{l2-ball: 5}}, step_size: {{rule: inverse-sqrt, a: 1}}}}
  loss: logistic
  slots: {slots}
  privacy: {{mechanism: laplace, noise: simulated, epsilon: 1, gradient_bound: 1}}
  topology: {{graph: ring}}
  rounds: 8
  seed: 7
nodes:
  north: {{source: {{kind: {kind}, path: north.{kind}, schema: schema.yaml{more}}}}}
  south: {{source: {{kind: {kind}, path: south.{kind}, schema: schema.yaml{more}}}}}
"""
SCHEMA = """
features:
  amount: {bounds: [0, 100]}
  country: {categories: [de, fr]}
  age: {bounds: [0, 90]}
  shop: {hashed: 2}
label: {column: fraud, positive: [1]}
timestamp: at
"""
BY_COUNT, BY_TIME = "{by: count, size: 10}", "{by: time, period: 20, start: 2026-01-01T00:00:00Z}"


def columns(node):
    rng = np.random.default_rng({"north": 1, "south": 2}[node])
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    return {
        "amount": rng.integers(0, 9000, ROWS) / 64,
        "unused": np.zeros(ROWS),
        "country": np.array(["de", "fr", "it"])[rng.integers(0, 3, ROWS)],
        "age": rng.integers(18, 80, ROWS),
        "shop": np.array(["a", "\u00fc", "c"], dtype=object)[rng.integers(0, 3, ROWS)],
        "fraud": rng.integers(0, 2, ROWS),
        "at": start + rng.integers(0, 170, ROWS),
    }


FRAMES = {
    "numpy": dict,
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "arrow": pa.table,
    "batches": lambda rows: pa.Table.from_batches(pa.table(rows).to_batches(max_chunksize=7)).to_reader(),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    for node in ("north", "south"):
        table = pa.table(columns(node))
        parquet.write_table(table, tmp_path / f"{node}.parquet")
        pandas.DataFrame(columns(node)).to_csv(tmp_path / f"{node}.csv", index=False)
    return tmp_path


def mesh(folder, slots=BY_COUNT, kind="parquet", more=""):
    path = folder / f"{kind}.yaml"
    path.write_text(MESH.format(slots=slots, kind=kind, more=more))
    return mirrormesh.load(str(path))


def releases(outcome):
    return {
        name: [record.release.tobytes() for record in node.records] for name, node in outcome.nodes.items()
    }


@pytest.mark.parametrize("slots", [BY_COUNT, BY_TIME])
@pytest.mark.parametrize("frame", FRAMES)
def test_the_same_rows_give_the_same_releases_as_a_file_of_them(folder, frame, slots, monkeypatch):
    monkeypatch.setattr("streams.records.frames.ROWS", 32)
    more = "" if slots is BY_TIME else ", shuffle: true"
    more += ", take: {every: 2, offset: 1}"
    expected = releases(mirrormesh.run(mesh(folder, slots, more=more)))
    assert expected == releases(mirrormesh.run(mesh(folder, slots, "csv", more))) or slots is BY_TIME
    records = {node: FRAMES[frame](columns(node)) for node in ("north", "south")}
    outcome = mirrormesh.run(mesh(folder, slots, more=more), records=records)
    assert releases(outcome) == expected
    assert len(expected["north"]) == 8
    assert len(set(expected["north"])) == 8


def test_a_frame_stands_in_place_of_one_node_or_of_the_held_out_records(folder):
    file = mesh(folder)
    expected = releases(mirrormesh.run(file))
    assert releases(mirrormesh.run(file, records={"north": columns("north")})) == expected
    assert releases(mirrormesh.run(file, records={"north": columns("south")})) != expected
    path = folder / "parquet.yaml"
    path.write_text(
        path.read_text() + "held_out: {kind: parquet, path: south.parquet, schema: schema.yaml}\n"
    )
    file = mirrormesh.load(path)
    tested = mirrormesh.run(file).summary
    in_memory = mirrormesh.run(file, records={"held_out": pandas.DataFrame(columns("south"))}).summary
    assert in_memory.score == tested.score
    assert tested.score is not None


ODD = {
    "masked": (np.ma.array([1, 2, 3], mask=[False, True, False]), [1, None, 3]),
    "lists": ([1, "a", None], [1, "a", None]),
    "objects": (
        np.array([Decimal("1.50"), float("nan"), datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)], dtype=object),
        ["1.50", None, 9.0],
    ),
    "half": (np.array([0.5, 1, 2], dtype=np.float16), [0.5, 1.0, 2.0]),
    "bools": (np.array([True, False, True]), [True, False, True]),
    "words": (np.array(["a", "\ud800", ""]), ["a", "\ud800", ""]),
    "unsigned": (np.array([2**64 - 1, 0, 1], dtype=np.uint64), [2**64 - 1, 0, 1]),
}


@pytest.mark.parametrize("name", ODD)
def test_columns_become_the_values_that_json_has_for_them(folder, name):
    values, expected = ODD[name]
    assert lines(folder, {"amount": values}) == [{"amount": value} for value in expected]


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_times_without_a_zone_are_the_text_that_arrow_makes_of_them(folder, unit):
    times = np.array(["2026-01-31T12:00:01.5", "NaT", "1969-12-31"], dtype=f"datetime64[{unit}]")
    with_arrow = lines(folder, pa.table({"at": pa.array(times)}), "at")
    assert lines(folder, {"at": times}, "at") == with_arrow
    assert with_arrow[1] == {"at": None}


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"1", object(), 1j])
def test_an_object_that_is_no_value_makes_its_record_unreadable_and_no_other(folder, value):
    array = np.empty(ROWS, dtype=object)
    array[:] = "de"
    array[1] = value
    for name, reason in (("country", "not a single value"), ("amount", "not a number")):
        rows = columns("north") | {name: array if name == "country" else [1, value] * (ROWS // 2)}
        file, counts = with_records(mesh(folder), {"north": rows}, named=False), FaultCounts()
        features, _ = decoded(file, file.own("north").source, ("nodes", "north", "source"), counts)
        number = 1 if name == "country" else ROWS // 2
        assert len(features) == ROWS - number
        assert counts.faults == {Fault(name, reason): number}


def test_an_integer_too_long_to_be_spelt_makes_its_record_unreadable(folder):
    array = np.array([1, 10**5000, 3], dtype=object)
    assert lines(folder, {"amount": array}) == [{"amount": 1}, None, {"amount": 3}]


GAPS = """
features:
  amount: {bounds: [0, 100], missing: {as: indicator}}
  age: {buckets: [30, 60], missing: {as: indicator}}
  new: {categories: ["true"], missing: {as: category}}
  country: {categories: [de, fr], missing: {as: category}}
  shop: {hashed: 2, missing: {as: indicator}}
  at: {hour: Europe/Berlin, missing: {as: indicator}}
  day: {weekday: UTC, zone: UTC, missing: {as: indicator}}
  price: {bounds: [0, 9], missing: {as: indicator}}
label: {column: fraud, positive: [1], negative: [0]}
timestamp: at
"""


def with_gaps(seed):
    """Return a frame of every type of pandas that has gaps, and gaps in all of its columns."""
    rng = np.random.default_rng(seed)
    times = pandas.Timestamp("2026-03-29T00:59:58.123456") + pandas.to_timedelta(np.arange(ROWS), unit="min")
    frame = pandas.DataFrame(
        {
            "amount": pandas.array(rng.integers(0, 9000, ROWS) / 64, dtype="Float64"),
            "age": pandas.array(rng.integers(18, 80, ROWS), dtype="Int64"),
            "new": pandas.array(rng.integers(0, 2, ROWS) > 0, dtype="boolean"),
            "country": pandas.array(rng.choice(["de", "fr", "it"], ROWS), dtype="string"),
            "shop": pandas.Categorical(rng.choice(["a", "\u00fc"], ROWS)),
            "at": times.tz_localize("UTC").tz_convert("Europe/Berlin"),
            "day": times,
            "price": pandas.Series([Decimal(k) / 4 for k in range(ROWS)], dtype=object),
            "fraud": pandas.array(rng.integers(0, 2, ROWS), dtype="Int64"),
        }
    )
    for name in frame:
        frame.loc[rng.random(ROWS) < 0.2, name] = None
    return frame


AS_A_DICT = {
    "series": lambda column: column,
    "arrays": lambda column: column.to_numpy(),
    "objects": lambda column: column.astype(object).to_numpy(),
    "lists": lambda column: column.astype(object).tolist(),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", AS_A_DICT)
def test_gaps_of_pandas_are_gaps_in_a_dict_of_columns_too(folder, form, seed):
    (folder / "schema.yaml").write_text(GAPS)
    mesh_file = folder / "mesh.yaml"
    mesh_file.write_text(
        MESH.format(slots=BY_COUNT, kind="parquet", more="").replace("dimension: 6", "dimension: 49")
    )

    def arrays(data):
        file, counts = with_records(mirrormesh.load(mesh_file), {"north": data}, named=False), FaultCounts()
        source, path = file.own("north").source, ("nodes", "north", "source")
        lines, decoder = opened_file(file, source, path)
        features, labels = decoded(file, source, path, counts)
        return np.array(features), labels, [decoder.timestamp(line) for line in lines], counts.faults

    frame = with_gaps(seed)
    features, labels, times, faults = arrays(frame)
    of_dict = arrays({name: AS_A_DICT[form](frame[name]) for name in frame})
    assert of_dict[0].tobytes() == features.tobytes()
    assert of_dict[1].tobytes() == labels.tobytes()
    assert of_dict[2:] == (times, faults)
    assert [*faults] == [Fault("fraud", "empty")]
    assert times.count(None) == frame["at"].isna().sum() > 0


def test_a_gap_stays_one_whatever_object_says_so(folder):
    gaps = [
        None,
        pandas.NA,
        pandas.NaT,
        float("nan"),
        np.float32("nan"),
        Decimal("sNaN"),
        np.datetime64("NaT"),
    ]
    assert lines(folder, {"amount": gaps}) == [{"amount": None}] * len(gaps)
    moment = np.datetime64("2026-01-31T12:00:00.000000001")
    assert lines(folder, {"at": [moment]}, "at") == [{"at": "2026-01-31 12:00:00.000000001"}]


def lines(folder, data, *names):
    file = with_records(mesh(folder), {"north": data}, named=False)
    read = file.own("north").source.in_memory.lines(names or ("amount",))
    return [json.loads(line) if line else None for line in read]


def protected(folder, more=""):
    file = mesh(folder, more=more)
    file.path.write_text(file.path.read_text().replace("noise: simulated", "noise: exact"))
    return mirrormesh.load(file.path)


def test_a_state_folder_knows_records_by_their_names(folder):
    frame, state, file = pandas.DataFrame(columns("north")), folder / "state", protected(folder)

    def spent(run, north, south="south", **options):
        path = folder / "parquet.yaml"
        path.write_text(path.read_text().replace("run-1", run))
        outcome = mirrormesh.run(
            mirrormesh.load(path),
            records={"north": north, "south": Named(south, columns("south"))},
            state=str(state),
            **options,
        )
        path.write_text(path.read_text().replace(run, "run-1"))
        return outcome.summary.nodes[0].event_epsilon

    first = spent("run-1", Named("november", frame))
    assert mirrormesh.budget(file, "north", str(state)).charged == 8
    again = spent("run-2", Named("november", frame.copy()))
    assert (first, again) == (1, 2)
    # the reader's name counts too, as for files: the folder cannot know that december holds others
    assert spent("run-3", Named("december", frame)) == 3
    assert spent("run-4", Named("south", frame), "other") == 4 + 3  # what the other node has read too
    assert spent("run-5", Named("january", frame), "new", other_data=True) == 1


def test_with_a_state_folder_records_need_names(folder):
    with pytest.raises(UsageError, match=r"records\['north'\] .* must be Named\(name, records\)"):
        mirrormesh.run(mesh(folder), records={"north": columns("north")}, state=folder / "state")
    assert not (folder / "state").exists()


def test_fewer_rows_under_a_name_are_refused_where_the_run_continues(folder):
    file, state = mesh(folder), folder / "state"

    def run(rows, rounds):
        north = {name: values[:rows] for name, values in columns("north").items()}
        records = {"north": Named("november", north), "south": Named("s", columns("south"))}
        return mirrormesh.run(file, rounds=rounds, records=records, state=state)

    run(200, 3)
    with pytest.raises(mirrormesh.MeshFileError, match='"november": has 199 rows, and had 200'):
        run(199, 5)
    assert run(201, 5).summary.last_round == 5


def test_one_object_under_two_nodes_is_the_same_data(folder):
    frame = columns("north")
    file = with_records(protected(folder), {"north": frame, "south": frame}, named=False)
    assert data_of(file, "north")[0].names & data_of(file, "south")[0].names
    assert mirrormesh.promise(file, "north").epsilon == 2
    file = with_records(protected(folder), {"north": frame, "south": columns("south")}, named=False)
    assert not data_of(file, "north")[0].names & data_of(file, "south")[0].names
    assert mirrormesh.promise(file, "north").epsilon == 1
    parts = ", take: {every: 2, offset: 0}"
    path = protected(folder, parts).path
    path.write_text(path.read_text().replace("offset: 0", "offset: 1", 1))
    file = with_records(mirrormesh.load(path), {"north": frame, "south": frame}, named=False)
    assert mirrormesh.promise(file, "north").epsilon == 1


def other_amount(values):
    return values | {"amount": np.append(values["amount"][:-1], 0.5)}


@pytest.mark.parametrize(
    ("copied", "epsilon"),
    [
        (dict, 2),
        (pandas.DataFrame, 2),
        (lambda values: Named("another name", pandas.DataFrame(values)[::1]), 2),
        (lambda values: values | {"unused": np.ones(ROWS)}, 2),
        (other_amount, 1),
        (lambda values: {name: column[1:] for name, column in values.items()}, 1),
    ],
    ids=["dict", "pandas", "named", "what is not read differs", "one value differs", "a row less"],
)
def test_frames_that_are_copies_of_each_other_are_the_same_data(folder, copied, epsilon):
    records = {"north": columns("north"), "south": copied(columns("north"))}
    file = with_records(protected(folder), records, named=False)
    assert [mirrormesh.promise(file, name).epsilon for name in ("north", "south")] == [epsilon, epsilon]


def test_frames_without_rows_share_nothing(folder):
    empty = {name: values[:0] for name, values in columns("north").items()}
    file = with_records(protected(folder), {"north": empty, "south": dict(empty)}, named=False)
    assert mirrormesh.promise(file, "north").epsilon == 1


def test_copies_may_be_split(folder):
    path = protected(folder, ", take: {every: 2, offset: 0}").path
    path.write_text(path.read_text().replace("offset: 0", "offset: 1", 1))
    records = {"north": columns("north"), "south": columns("north")}
    file = with_records(mirrormesh.load(path), records, named=False)
    assert mirrormesh.promise(file, "north").epsilon == 1


def test_a_collaboration_reads_frames_too(tmp_path):
    path = write_collaboration(tmp_path)
    file = mirrormesh.load_collaboration(str(path))
    expected = mirrormesh.run(file)
    frames = {name: Named(name, pandas.read_csv(tmp_path / f"{name}.csv")) for name in file.mesh.owners}
    assert mirrormesh.run(file, records=frames).average.tobytes() == expected.average.tobytes()
    kept = mirrormesh.run(file, records=frames, state=tmp_path / "state")
    assert kept.average.tobytes() == expected.average.tobytes()


WRONG = {
    "no mapping": ([1], "records is a value of type list: must be a mapping from names of nodes to records"),
    "nobody": ({"nort": {}}, r"records is 'nort': is no node .* \(did you mean north\?\)"),
    "text": ({"north": "a.csv"}, r"records\['north'\] is 'a.csv': must be a data frame of pandas"),
    "rows": ({"north": np.zeros((3, 2))}, "type ndarray: must be a data frame of pandas, polars or Arrow"),
    "empty": ({"north": {}}, r"records\['north'\]: has no column"),
    "lengths": (
        {"north": {"age": [1], "at": [2], "amount": [1, 2]}},
        r"\['amount'\]: has 2 values, but 'age' has 1: must be the same number",
    ),
    "axes": (
        {"north": {"age": np.zeros((2, 2))}},
        "has 2 axes and type float64: must be an array of one axis",
    ),
    "complex": ({"north": {"age": np.zeros(2, complex)}}, "has 1 axes and type complex128: must be"),
    "text column": ({"north": {"age": "abc"}}, r"records\['north'\]\['age'\] is 'abc': must be an array"),
    "keys": ({"north": {1: [1]}}, "must be a dict whose keys are names of columns"),
    "series": ({"north": pandas.Series([1])}, "Series is no table as an Arrow stream"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_frame_is_one_line(folder, name):
    records, line = WRONG[name]
    with pytest.raises(UsageError, match=line) as error:
        mirrormesh.run(mesh(folder), records=records)
    assert "\n" not in str(error.value)


def test_without_pyarrow_columns_are_read_and_a_frame_is_told_what_it_needs(folder, monkeypatch):
    file, frame = mesh(folder, kind="csv"), pandas.DataFrame(columns("north"))
    expected = releases(mirrormesh.run(file))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert releases(mirrormesh.run(file, records={"north": columns("north")})) == expected
    with pytest.raises(UsageError, match=r"records\['north'\]: needs pyarrow, .* 'mirrormesh\[parquet\]'"):
        mirrormesh.run(file, records={"north": frame})


def test_a_name_stands_for_one_object(folder):
    records = {"north": Named("a", columns("north")), "south": Named("a", columns("north"))}
    with pytest.raises(UsageError, match=r"records\['south'\] is 'a': is the name of other records too"):
        mirrormesh.run(mesh(folder), records=records)
    for name in ("", None, 3, "a\nb", "x" * 201):
        with pytest.raises(UsageError, match=r"name is .*: must be text of 1 to 200 printable characters"):
            Named(name, columns("north"))


def test_the_error_of_a_frame_shows_no_value(folder):
    frame = pandas.DataFrame({"amount": [1, "secret-value"]})
    line = (
        r"\['amount'\]: this column of DataFrame is none as an Arrow stream \(ArrowInvalid\): must be of one"
    )
    with pytest.raises(UsageError, match=line) as error:
        mirrormesh.run(mesh(folder), records={"north": frame})
    assert "secret" not in str(error.value)


def mixed(frame):
    return frame.assign(ref=[1, "A2"] * (ROWS // 2))


UNREAD = {
    "mixed types": mixed,
    "sets": lambda frame: frame.assign(ref=[{1}] * ROWS),
    "paths": lambda frame: frame.assign(ref=[Path("a")] * ROWS),
    "complex": lambda frame: frame.assign(ref=1j),
    "a name twice": lambda frame: pandas.concat([frame, frame[["unused"]]], axis=1),
    "an index of mixed types": lambda frame: mixed(frame).set_index("ref"),
    "an index that is read": lambda frame: mixed(frame).set_index(["ref", "amount", "at"]),
    "an index that counts otherwise": lambda frame: mixed(frame).set_index(np.arange(ROWS) % 7),
    "numbers as names": lambda frame: mixed(frame).rename(columns={"unused": 3}),
    "Int128": lambda frame: polars.from_pandas(frame).with_columns(ref=polars.lit(1, polars.Int128)),
    "objects": lambda frame: polars.from_pandas(frame).with_columns(
        polars.Series("ref", [object()] * ROWS, dtype=polars.Object)
    ),
    "a dict": lambda frame: dict(frame) | {"ref": np.zeros((2, 2)), "text": "abc"},
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_column_that_the_schema_does_not_name_is_not_looked_at(folder, name):
    expected = releases(mirrormesh.run(mesh(folder, BY_TIME)))
    records = {node: UNREAD[name](pandas.DataFrame(columns(node))) for node in ("north", "south")}
    assert releases(mirrormesh.run(mesh(folder, BY_TIME), records=records)) == expected


NO_VALUES = {
    "mixed types": (
        pandas,
        [1, "A2"],
        r"\['amount'\]: this column of DataFrame is none .*must be of one type",
    ),
    "bytes": (pandas, [b"1", b"2"], '"amount": not in the columns .* with single values, which is "unused"'),
    "lists": (pandas, [[1], [2]], '"amount": not in the columns .* with single values, which is "unused"'),
    "bytes of polars": (polars, [b"1", b"2"], '"amount": not in .* with single values, which is "unused"'),
    "Int128": (
        polars,
        polars.Series([1, 2] * (ROWS // 2), dtype=polars.Int128),
        r"\['amount'\]: this column",
    ),
}


@pytest.mark.parametrize("name", NO_VALUES)
def test_a_column_that_the_schema_names_and_holds_no_values_is_named(folder, name):
    package, values, line = NO_VALUES[name]
    rows = columns("north")
    del rows["amount"]
    amount = values * (ROWS // 2) if isinstance(values, list) else values
    with pytest.raises((UsageError, mirrormesh.MeshFileError), match=line):
        mirrormesh.run(mesh(folder), records={"north": package.DataFrame(rows | {"amount": amount})})


def test_a_column_that_the_schema_names_and_stands_twice_is_named(folder):
    frame = pandas.DataFrame(columns("north"))
    twice = pandas.concat([frame, frame[["amount"]]], axis=1)
    with pytest.raises(mirrormesh.MeshFileError, match='"amount": twice in the columns of the records'):
        mirrormesh.run(mesh(folder), records={"north": twice})


def test_a_column_that_is_missing_is_named_with_those_that_are_there(folder):
    rows = columns("north")
    rows["amounts"] = rows.pop("amount")
    with pytest.raises(mirrormesh.MeshFileError, match=r"\"amount\": not in the columns .* mean amounts"):
        mirrormesh.run(mesh(folder), records={"north": pandas.DataFrame(rows)})


def test_no_rows_are_told_with_slots_by_count(folder):
    empty = {name: values[:0] for name, values in columns("north").items()}
    with pytest.raises(mirrormesh.MeshFileError, match=r"nodes.north.source.path: holds no record"):
        mirrormesh.run(mesh(folder), records={"north": empty})


def test_a_source_without_a_schema_is_told(folder):
    path = folder / "parquet.yaml"
    mesh(folder)
    text = path.read_text()
    path.write_text(text.replace("{kind: parquet, path: north.parquet, schema: schema.yaml}", "null"))
    with pytest.raises(UsageError, match=r"records\['north'\]: .*parquet.yaml says no schema for them"):
        mirrormesh.run(mirrormesh.load(path), records={"north": columns("north")})


def test_a_frame_is_read_once_as_often_as_it_is_asked_for(folder):
    """A reader of batches can be read once, and the source is opened more than once."""
    file = with_records(mesh(folder), {"north": FRAMES["batches"](columns("north"))}, named=False)
    assert [len(list(open_source(file, "north", 0).records)) for _ in range(2)] == [ROWS, ROWS]
