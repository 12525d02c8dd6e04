"""No record costs what its bytes ask for, and none halts a slot: at every place where records are read."""

import json

import numpy as np
import pytest

from streams.mesh.file import MeshFileError, load
from streams.mesh.model_file import Model
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import LibsvmSettings
from streams.records.decoder import JsonFields, SchemaDecoder, json_fields
from streams.records.observed import observed, truth
from streams.records.record import SparseRow
from streams.records.sources import decoder, held_out, open_source
from streams.records.sparse import LibsvmDecoder
from streams.tools.feed.lines import FeedOptions, Lines, opened
from streams.tools.model.predicting import ModelFile, predictions
from tests.support.meshes.files import changed
from tests.support.meshes.files import written as mesh_file
from tests.support.meshes.sources import ALL_KINDS, SCHEMA, mesh_of, record
from tests.support.processes.in_process import Commands


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_record_longer_than_max_record_bytes_is_malformed(tmp_path, monkeypatch, kind):
    file = mesh_of(tmp_path, monkeypatch, kind, max_record_bytes=200)
    for found in (decoder(file, "b"), open_source(file, "b", 0).decoder):
        seen = observed((record(kind, 200), record(kind, 201), record(kind)), found)
        assert seen.present.tolist() == [True, False, True]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_unless_given_it_grows_with_the_dimension(tmp_path, monkeypatch, kind):
    found = decoder(mesh_of(tmp_path, monkeypatch, kind), "b")
    assert found.longest == 16 * 1024
    assert found.decode(record(kind, 16 * 1024)) is not None
    assert found.decode(record(kind, 16 * 1024 + 1)) is None


def test_of_many_features_a_record_may_be_longer():
    longest = [LibsvmDecoder(LibsvmSettings(kind="libsvm"), d).longest for d in (256, 257, 16384, 47236)]
    assert longest == [16384, 64 * 257, LONGEST_LINE, LONGEST_LINE]
    wide = SchemaSettings.model_validate(
        {"features": {"a": {"hashed": 1000}}, "label": {"column": "b"}, "intercept": True}
    )
    assert SchemaDecoder(wide, json_fields).longest == 64 * 1001
    assert SchemaDecoder(wide, json_fields, learnt=3003).longest == 64 * 3003
    assert SchemaDecoder(wide, json_fields, 77, 3003).longest == 77


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("bad", [0, -1, LONGEST_LINE + 1, "many", 1.5])
def test_other_limits_are_refused(tmp_path, monkeypatch, kind, bad):
    with pytest.raises(MeshFileError, match=r"nodes\.b\.source\.max_record_bytes"):
        mesh_of(tmp_path, monkeypatch, kind, max_record_bytes=bad)


def test_it_is_a_nodes_own_affair(tmp_path, monkeypatch):
    files = [mesh_of(tmp_path, monkeypatch, "csv", **own) for own in ({}, {"max_record_bytes": 100})]
    assert files[0].digest() == files[1].digest()


def test_what_is_too_long_is_not_parsed():
    parsed = []

    class Parsed(JsonFields):
        def __call__(self, value):
            parsed.append(value)
            return super().__call__(value)

    schema = SchemaSettings.model_validate(SCHEMA | {"timestamp": "at", "truth": ["u"]})
    found = SchemaDecoder(schema, Parsed(), 100)
    whole = {"x": 1, "y": 2, "label": 3, "at": 4, "u": 5}
    long = json.dumps(whole | {"unused": "x" * 100}).encode()
    assert (found.decode(long), found.parts(long), found.truth(long), found.timestamp(long)) == (
        None,
        (None, None),
        None,
        None,
    )
    assert truth((long,), found) is None
    assert parsed == []
    short = json.dumps(whole).encode()
    assert found.decode(short) is not None
    assert (found.truth(short).tolist(), found.timestamp(short)) == ([5.0], 4.0)


@pytest.mark.parametrize("kind", ["csv", "json-lines", "libsvm", "csr", "parquet"])
def test_held_out_records_are_read_alike(tmp_path, monkeypatch, kind):
    for longest, expected in ((None, [1, 2, 3]), (40, [1, 3])):
        file = mesh_of(tmp_path, monkeypatch, kind, held_out=longest, rows=["1", f"2.{0:0200}", "3"])
        _, labels = held_out(file)
        assert labels.tolist() == expected


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_feed_says_why_it_is_a_dead_letter(tmp_path, monkeypatch, kind):
    file = mesh_of(tmp_path, monkeypatch, kind, max_record_bytes=3)
    wanted = FeedOptions(records=2) if kind == "localisation" else FeedOptions()
    said = {
        str(line.bad) for _, line in zip(range(2), Lines(opened(file, "b", wanted), 1 << 20), strict=False)
    }
    assert said == {"longer than 3 bytes, the source's max_record_bytes"}


def test_times_and_predictions_too(tmp_path, monkeypatch):
    rows = [{"x": 1, "y": 2, "label": 3, "at": second} for second in range(3)]
    rows[1]["unused"] = "x" * 20_000
    (tmp_path / "timed.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"kind": "json-lines", "path": "timed.json", "schema": SCHEMA | {"timestamp": "at"}}
    tree = changed(nodes=["b"], loss="squared", topology={"graph": "complete"})
    tree["mesh"]["slots"] = {"by": "time", "start": 0, "period": 1, "size": 1}
    tree["nodes"] = {"b": {"source": source}}
    file = load(mesh_file(tmp_path, tree), {})
    assert [found.timestamp for found in open_source(file, "b", 0).records] == [None, 0.0, 2.0]
    about = dict.fromkeys(("mesh", "run", "averaged", "algorithm"), "x")
    numbers = dict.fromkeys(("round", "nodes", "rounds"), 1)
    model = Model.model_construct(
        **about,
        **numbers,
        loss=file.mesh.loss,
        dimension=2,
        source=None,
        newest=(1.0, 1.0),
        average=(1.0, 1.0),
    )
    settings = file.own("b").source
    made = predictions(
        ModelFile(tmp_path / "m.json", model), "newest", settings, file, ("nodes", "b", "source")
    )
    assert made.records == [(1, 3.0), (2, None), (3, 3.0)]


class Broken:
    """A decoder that is not total: in what it raises, and in what it gives."""

    dimension = longest = 5

    def decode(self, value):
        if value == b"raises":
            raise KeyError(value)
        return (np.ones(4 if value == b"shape" else 5), 1.0)


class BrokenRows(LibsvmDecoder):
    """One that lets indices through which are no row's."""

    def decode(self, value):
        if value == b"raises":
            raise KeyError(value)
        return SparseRow(np.array([3, 99 if value == b"shape" else 4]), np.ones(2)), 1.0


@pytest.mark.parametrize("decodes", [Broken(), BrokenRows(LibsvmSettings(kind="libsvm"), 5)])
def test_where_a_slot_raises_the_record_that_raises_is_absent(decodes):
    seen = observed((b"1", b"shape", b"2", b"raises"), decodes)
    assert seen.present.tolist() == [True, False, True, False]
    rows = seen.features if isinstance(decodes, Broken) else seen.features.dense()
    assert rows.any(1).tolist() == seen.present.tolist()
    assert seen.labels.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_what_a_decoder_raises_against_its_word_is_no_record():
    class Raising(JsonFields):
        def __call__(self, value):
            raise MemoryError(value)

    found = SchemaDecoder(SchemaSettings.model_validate(SCHEMA | {"timestamp": "at"}), Raising())
    assert (found.decode(b"1"), found.parts(b"1"), found.timestamp(b"1")) == (None, (None, None), None)


def test_check_says_that_records_are_too_long(tmp_path, monkeypatch, capsys):
    file = mesh_of(tmp_path, monkeypatch, "json-lines", max_record_bytes=10)
    outcome = Commands(capsys)("check", file.path)
    assert outcome.code == 2
    assert (
        "nodes.b.source.max_record_bytes: each of the first 3 records is longer than 10 bytes" in outcome.err
    )
