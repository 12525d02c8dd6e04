"""Slots by time: add, remove or move one record of a file, at every place, its times in no order.

Nothing that is shared may tell, but the releases that follow from the slots that the record was or is in.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.privacy.reveal import opened
from streams.records.slot_feed import DataLog, SlotFeed
from streams.records.sources import open_source
from tests.simulation.test_swap import shared
from tests.support.meshes.files import changed, loaded

ROUNDS, START, PERIOD = 10, 1000.0, 10.0
SLOTS = {"by": "time", "start": START, "period": PERIOD, "size": 2, "grace": 3.0}
SOURCE = {
    "kind": "json-lines",
    "path": "b.jsonl",
    "schema": {
        "features": {"x": "number", "y": "number"},
        "label": {"column": "distance"},
        "timestamp": "at",
    },
}
FAR = "2999-01-01T00:00:00Z"
TIMES = (1042, 1007, 1e12, 1093, 1044, 1015, 1043, 999, FAR, 1062, 1069, 1060, 1e300, 1088.5)
OUTSIDE = [5_000.0 + k for k in range(100)]
"""Of slots that the run never comes to: whether there is one more of them tells nothing."""


def record(number, at):
    return json.dumps({"x": 1.5, "y": 0.0, "distance": 0.5 + number % 7, "at": at})


RECORDS = [record(k, at) for k, at in enumerate(TIMES)] + [record(7, at) for at in OUTSIDE]
RECORDS.insert(4, '{"x": 1.5, "y": 0.0, "distance": 1}')  # it has no time


def slot_of(line):
    at = json.loads(line).get("at", 0.0)
    inside = isinstance(at, float | int) and START <= at < START + ROUNDS * PERIOD
    return {int((at - START) // PERIOD) + 1} if inside else set()


def written(folder, lines, **mesh):
    tree = changed(slots=SLOTS, rounds=ROUNDS, horizon=4, **mesh)
    tree["mesh"]["slots"].pop("timeout", None)
    tree["nodes"]["b"] = {"source": SOURCE}
    (folder / "b.jsonl").write_text("\n".join(lines) + "\n")
    return loaded(folder, tree)


def changes():
    """Every way to change one record: (what, where, its line, and another in its place)."""
    places = range(len(TIMES) + 1)
    for at in (1044.5, 1062.0, 1e12, 0.0, 999.0):
        for place in places:
            yield f"add {at:g} at {place}", place, None, record(3, at)
    for place in places:
        yield f"remove {place}", place, RECORDS[place], None
        for at in (1030.5, 1062.0, 1e12):
            yield f"move {place} to {at:g}", place, RECORDS[place], record(place, at)


def with_change(place, old, new):
    return RECORDS[:place] + ([] if new is None else [new]) + RECORDS[place + (old is not None) :]


def slots_of(file):
    """What the slots of node b hold: (values, labels) of each round."""
    source = open_source(file, "b", 0)
    feed = SlotFeed(DataLog(source.records), file.resolved.slots, source.decoder)
    position, found = (), {}
    for round in range(1, ROUNDS + 1):
        closed = feed.close(OpenSlot(round, position))
        position, held = closed.position, opened(closed.observations)
        found[round] = held.labels.tolist()
    return found


def test_one_record_changes_the_slots_that_it_was_or_is_in_and_no_other(tmp_path):
    usual, told = slots_of(written(tmp_path, RECORDS)), 0
    assert sum(map(len, usual.values())) == 8  # of 10 in slots two are too many
    for what, place, old, new in changes():
        other = slots_of(written(tmp_path, with_change(place, old, new)))
        differing = {round for round in usual if usual[round] != other[round]}
        assert differing <= {slot for line in (old, new) if line for slot in slot_of(line)}, what
        told += bool(differing)
    assert told > 40


@settings(max_examples=60)
@given(
    st.lists(
        st.floats(980.0, 1120.0) | st.sampled_from([1e12, 1e300, -1e300, None]), min_size=5, max_size=25
    ),
    st.floats(980.0, 1120.0) | st.sampled_from([1e12, 1e300, None]),
    st.integers(0, 25),
)
def test_an_added_record_changes_its_own_slot_alone(tmp_path_factory, times, at, place):
    folder = tmp_path_factory.mktemp("swap")
    lines = [record(k, time) for k, time in enumerate(times)]
    place %= len(lines) + 1
    usual = slots_of(written(folder, lines))
    other = slots_of(written(folder, [*lines[:place], record(6, at), *lines[place:]]))
    own = set() if at is None else slot_of(record(6, at))
    assert {round for round in usual if usual[round] != other[round]} <= own


WHOLE = [change for k, change in enumerate(changes()) if k % 5 == 0]


@pytest.mark.parametrize("mesh", [{}, {"privacy": {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4}}])
def test_nothing_shared_tells_but_the_releases_that_follow(tmp_path, mesh):
    usual, values = shared(written(tmp_path, RECORDS, **mesh))
    told = 0
    for what, place, old, new in WHOLE:
        other, other_values = shared(written(tmp_path, with_change(place, old, new), **mesh))
        assert other == usual, what
        assert values.keys() == other_values.keys()
        differing = {key[-1] for key in values if values[key] != other_values[key]}
        own = {slot for line in (old, new) if line for slot in slot_of(line)}
        assert all(round > min(own, default=ROUNDS + 1) for round in differing), what
        told += bool(differing)
    assert told > 5
