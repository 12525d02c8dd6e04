"""Histories of a mesh whose units are bounded: each unit's rounds, recounted from journalled positions."""

import json

import pytest

import streams.records.observed as observing
from streams.mesh.file import load
from streams.simulation.search import MeshStage, search
from tests.streams.mesh.test_unit import written

HISTORIES = 25


@pytest.fixture(params=["count", "time"])
def stage(tmp_path, request):
    for name in "abc":
        rows = [
            {"who": f"{name}{k * k % 7}", "amount": k % 5 / 5, "fraud": k % 2, "at": k / 3}
            for k in range(400)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    nodes = "\n".join(f"  {name}: {{source: {{kind: json-lines, path: {name}.jsonl}}}}" for name in "abc")
    changes = {
        "size": ("size: 10", "size: 3"),
        "nodes": ("  a: {source: {kind: json-lines, path: a.jsonl}}", nodes),
    }
    if request.param == "time":
        changes["slots"] = ("{by: count, size: 3}", "{by: time, size: 3, period: 1, start: 0}")
        changes["label"] = ("    label:", "    timestamp: at\n    label:")
    return MeshStage(load(written(tmp_path, "column: who, records: 4, apart: 6", rounds="24", **changes)))


def violations(stage, histories):
    return [outcome for outcome in search(stage, range(histories)) if outcome.violation is not None]


def test_each_units_rounds_are_apart_whatever_goes_wrong(stage):
    assert violations(stage, HISTORIES) == []


def test_a_node_that_bounds_no_unit_is_seen(stage, monkeypatch):
    monkeypatch.setattr(observing, "counted_records", lambda slot, decoder: None)
    assert violations(stage, 1)


def test_a_node_that_takes_another_round_for_a_seat_is_seen(stage, monkeypatch):
    plain = observing.counted

    def later(round, apart, numbers, order):
        return plain(round + 1, apart, numbers, order)

    monkeypatch.setattr(observing, "counted", later)
    assert violations(stage, 3)
