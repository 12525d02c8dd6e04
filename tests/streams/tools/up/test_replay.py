"""`up --replay`: a mesh file whose slots begin soon, and the times of all records moved by one number."""

import json
from dataclasses import replace

import pytest
import yaml

from streams.mesh.file import MeshFileError, load
from streams.records.sources import open_source
from streams.tools.feed.lines import FeedOptions, opened
from streams.tools.up import replay
from streams.tools.up.replay import check_replay, replayed
from tests.support.brokers.feeding import SCHEMA
from tests.support.meshes.files import changed, loaded, with_value, written
from tests.support.nodes.accounts import journal, record

START = 1_700_000_000.25
NOW = START + 100_000.5
SHIFT = 100_013.0
"""Whole seconds, so that slots keep their place within a second, and 12.25 at least after NOW."""
FILE = {"kind": "json-lines", "path": "records/${WHERE}/a.jsonl", "schema": SCHEMA | {"timestamp": "at"}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(replay, "lead", lambda _: 12.25)  # the machine's own differs


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """A mesh whose files stand in every place that a mesh file can name."""
    monkeypatch.setenv("WHERE", "here")
    monkeypatch.setenv("PASSWORD", "hidden")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "schema.yaml").write_text(yaml.safe_dump(FILE["schema"]))
    (tmp_path / "parts" / "b.yaml").write_text(
        yaml.safe_dump({"source": FILE | {"path": "b.jsonl", "schema": "schema.yaml"}})
    )
    tree = changed(nodes=["a", "b"], loss="squared")
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1, "size": 3}
    tree["mesh"]["algorithm"]["x_1"] = [0.1, 0.2]
    tree["nodes"] = {"a": {"source": FILE}, "b": "parts/b.yaml"}
    tree["held_out"] = FILE | {"path": "held.jsonl", "schema": "parts/schema.yaml"}
    broker = {"servers": "127.0.0.1:1", "username": "me", "password": "${PASSWORD}"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    return load(written(tmp_path, tree))


def absolute(file, own):
    return own.model_copy(update={"source": own.source.model_copy(update={"path": file})})


def test_the_replay_is_the_same_mesh_from_now_on(timed, state, tmp_path):
    file = replayed(timed, state, NOW)
    assert file.path == state / "replay.yaml"
    assert file.mesh.shift == SHIFT
    slots = timed.mesh.slots.model_copy(update={"start": START + file.mesh.shift, "shift": file.mesh.shift})
    assert file.mesh == timed.mesh.model_copy(update={"slots": slots})
    assert file.brokers("a") == timed.brokers("a")
    assert file.nodes["a"] == absolute(str(tmp_path / "records/here/a.jsonl"), timed.nodes["a"])
    assert file.nodes["b"] == absolute(str(tmp_path / "parts/b.jsonl"), timed.nodes["b"])
    assert file.held_out.path == str(tmp_path / "held.jsonl")
    assert file.held_out.record == timed.held_out.record
    assert "hidden" not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0


def test_every_source_moves_times_by_the_same_number_and_the_guarantee_names_it(timed, state, tmp_path):
    (tmp_path / "records/here").mkdir(parents=True)
    (tmp_path / "records/here/a.jsonl").write_text(json.dumps({"x": 1, "y": 1, "distance": 1, "at": START}))
    file = replayed(timed, state, NOW)
    assert next(open_source(file, "a", 0).records).timestamp == START + SHIFT
    found = opened(file, "a", FeedOptions(timestamps=True))
    assert (next(found.source.records).timestamp, found.shift) == (START + SHIFT, SHIFT)
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.shift: 100013\.0: the mesh file moves all "):
        opened(file, "a", FeedOptions(shift=1.0))
    again = replayed(file, tmp_path, NOW + 500)  # of the replay itself
    assert (again.mesh.slots.start, again.mesh.shift) == (START + SHIFT + 500, SHIFT + 500)
    settings = file.mesh.privacy.model_copy(update={"noise": "exact"})
    exact = replace(file, mesh=file.mesh.model_copy(update={"privacy": settings}))
    said = exact.resolved.node("a").guarantee.sentence("a")
    assert "the time of every record is moved by the same 100,013 s, which are public;" in said


def test_a_generators_times_follow_the_start_by_themselves(state, tmp_path):
    tree = changed()
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    file = replayed(loaded(tmp_path, tree), state, NOW)
    assert next(open_source(file, "a", 0).records).timestamp == START + SHIFT + 0.5
    assert opened(file, "a", FeedOptions()).shift == 0


def test_a_replay_goes_on_with_its_own_start_until_it_has_ended_unbegun(timed, state):
    first = replayed(timed, state, NOW)
    again = replayed(timed, state, NOW + 5)
    assert (again.mesh.shift, again.mesh.slots) == (first.mesh.shift, first.mesh.slots)
    assert replayed(timed, state, NOW + 500, lambda _: []).mesh.shift == SHIFT + 500


def test_a_replay_that_was_fed_and_has_ended_unbegun_keeps_its_times(timed, state):
    """Its topics take no record with another time: a second one would only fail later, feeder by feeder."""
    written = replayed(timed, state, NOW).path.read_text()
    words = (
        r"state ended before its first step, and its times are in data\.b: delete what is there, or give an"
    )
    with pytest.raises(MeshFileError, match=words):
        replayed(timed, state, NOW + 500, lambda _: ["data.b"])
    assert (state / "replay.yaml").read_text() == written
    assert replayed(timed, state, NOW + 5, lambda _: ["data.b"]).mesh.shift == SHIFT


def test_a_start_takes_longer_with_more_nodes(timed, tmp_path, monkeypatch):
    monkeypatch.undo()
    many = loaded(tmp_path, changed(nodes=["a", "b", "c", "d"]))
    assert replay.LEAD < replay.lead(timed) < replay.lead(many)


def test_a_replay_that_has_begun_is_never_moved(timed, state):
    first = replayed(timed, state, NOW)
    journal(state, first, "a", record(1))
    assert replayed(timed, state, NOW + 500).mesh.shift == first.mesh.shift


def test_another_runs_replay_is_in_the_topics(timed, state):
    first = replayed(timed, state, NOW)
    other = replace(timed, mesh=timed.mesh.model_copy(update={"run": "run-2"}))
    journal(state, first, "a", record(1))
    with pytest.raises(
        MeshFileError, match=r"mesh\.run: \"run-2\": .* holds a replay of run run-1: .* may not count"
    ):
        replayed(other, state, NOW + 500)
    assert load(state / "replay.yaml").mesh.run == "run-1"


def test_a_replay_needs_times_and_all_nodes(timed, tmp_path):
    check_replay(timed)
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.by: \"count\": --replay moves times: must be"):
        check_replay(loaded(tmp_path, changed()))
    tree = with_value(changed(), "nodes.c", "elsewhere.yaml")
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    with pytest.raises(MeshFileError, match="nodes: the own part of c is missing: with --replay one party"):
        check_replay(loaded(tmp_path, tree))


def test_words_that_look_like_numbers_stay_words(state, tmp_path):
    tree = changed(nodes=["a"], loss="hinge", topology={"graph": "complete"}, dimension=2)
    tree["mesh"]["slots"] = {"by": "time", "start": START, "period": 1}
    words = ["1e-3", "on", "007", 'a "b": #c', "\u00e9\U0001f600"]
    schema = {
        "features": {"1e-3": "number", "null": "number"},
        "label": {"column": "yes", "positive": words},
        "timestamp": "at",
    }
    tree["nodes"] = {"a": {"source": {"kind": "json-lines", "path": "a", "schema": schema}}}
    (tmp_path / "mesh.yaml").write_text(json.dumps(tree, ensure_ascii=False))
    file = load(tmp_path / "mesh.yaml")
    assert replayed(file, state, NOW).nodes["a"].source.record == file.nodes["a"].source.record
