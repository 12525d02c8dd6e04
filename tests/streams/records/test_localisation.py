"""The localisation example against its formulas, in a plain loop."""

import json
import math
from itertools import islice

import numpy as np
import pytest

from nodes.machine.events import OpenSlot
from nodes.privacy.owner import disclosed_to_owner
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.mesh import TargetSettings
from streams.mesh.settings.node import LocalisationSettings
from streams.records.localisation import Readings, sensor, target_path
from streams.records.slot_feed import DataLog, SlotFeed
from streams.records.sources import open_source
from tests.support.meshes.files import changed, loaded

STEPS = 600


def measurements(seed, number, position, **own):
    settings = LocalisationSettings(kind="localisation", **own)
    return (value for value, _ in Readings(seed, number, position, settings))


def test_the_target_starts_and_moves_as_printed():
    path = target_path(3, STEPS)
    assert path[0].tolist() == [0.8, 0.95]
    coins = []
    for t in range(1, STEPS):
        moved = path[t] - path[t - 1]
        q = 0 if abs(moved[1]) < 1e-15 else 1
        coins.append(q)
        assert moved[0] == pytest.approx((-1) ** q * math.sin(t / 50) / (10 * t), abs=1e-12)
        assert moved[1] == pytest.approx(-q * math.cos(t / 70) / (40 * t), abs=1e-12)
    assert 0.4 < np.mean(coins) < 0.6


def test_a_longer_path_begins_with_the_shorter_one():
    assert target_path(3, 10).tolist() == target_path(3, STEPS)[:10].tolist()
    assert target_path(3, 10).tolist() != target_path(4, 10).tolist()


def test_sensors_stand_evenly_on_a_circle():
    for k in range(6):
        x, y = sensor(k, 6)
        assert (x, y) == pytest.approx((1.5 * math.cos(k * math.pi / 3), 1.5 * math.sin(k * math.pi / 3)))


def test_a_sensor_measures_the_distance_to_the_shared_target():
    path = target_path(3, STEPS)
    errors = []
    for number in (0, 4):
        place = sensor(number, 6)
        for at, line in zip(path.tolist(), measurements(3, number, place), strict=False):
            record = json.loads(line)
            assert (record["x"], record["y"]) == place
            errors.append(record["distance"] - math.dist(place, at))
    assert -1e-12 <= min(errors) < 1e-5
    assert 0.00099 < max(errors) <= 0.001 + 1e-12
    assert np.mean(errors) == pytest.approx(0.0005, abs=5e-5)
    assert errors[:STEPS] != errors[STEPS:]


def test_a_record_may_say_where_the_target_is_and_is_else_the_same():
    path = target_path(3, STEPS)
    plain, said = (
        list(islice(measurements(3, 1, (1.0, 0.0), truth=truth), STEPS)) for truth in (False, True)
    )
    for at, without, line in zip(path.tolist(), plain, said, strict=True):
        record = json.loads(line)
        assert [record.pop("target_x"), record.pop("target_y")] == at
        assert json.dumps(record).encode() == without


def test_records_are_a_function_of_seed_and_sensor():
    first, again, other_seed, other_sensor = (
        list(islice(measurements(seed, number, (1.0, 0.0)), 300))
        for seed, number in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first == again
    assert first != other_seed
    assert first != other_sensor


# What made-up sensors measure of a target that moves: kinds, errors, what is lost or out of reach, slots


EIGHT = TargetSettings.model_validate({"path": "figure-eight", "speed": 0.01})
PLACE, ROUNDS = (1.5, 0.0), 3000
PATH = target_path(0, ROUNDS, EIGHT)


def readings(loss="range", size=1, rounds=ROUNDS, **own):
    settings = LocalisationSettings(kind="localisation", **own)
    made = Readings(7, 2, PLACE, settings, EIGHT, LossSettings.model_validate(loss), size)
    return [(json.loads(value), sent) for value, sent in islice(made, rounds * size)]


def errors(column, exact, **own):
    return np.array([record[column] for record, _ in readings(**own)]) - exact


DISTANCES = np.hypot(*(PATH - PLACE).T)


def test_a_sensor_measures_what_its_loss_takes():
    angles = np.arctan2(PATH[:, 1], PATH[:, 0] - 1.5)
    difference = {"range-difference": {"reference": [0, 1]}}
    exact = {
        "distance": ("range", DISTANCES),
        "bearing": ("bearing", angles),
        "difference": (difference, DISTANCES - np.hypot(*(PATH - [0, 1]).T)),
    }
    for column, (loss, expected) in exact.items():
        off = errors(column, expected, loss=loss)
        assert -1e-12 <= off.min() < 1e-4
        assert 0.0009 < off.max() <= 0.001 + 1e-12
    assert readings({"bearing": {"huber": 0.1}}) == readings("bearing")


def test_noise_is_normal_and_none_is_none():
    off = errors("distance", DISTANCES, noise=0.05)
    assert off.std() == pytest.approx(0.05, rel=0.1)
    assert abs(off.mean()) < 0.005
    assert np.abs(errors("distance", DISTANCES, noise=0.0)).max() < 1e-12


def test_a_share_of_measurements_is_too_large():
    off = errors("distance", DISTANCES, noise=0.0, outliers={"share": 0.1, "excess": 0.8})
    assert (off > 1e-9).mean() == pytest.approx(0.1, abs=0.03)
    assert off.min() >= -1e-12
    assert 0.7 < off.max() <= 0.8


def test_what_is_lost_out_of_reach_or_not_in_its_rounds_has_no_measurement():
    lost = readings(dropouts=0.3)
    gone = np.array([not sent for _, sent in lost])
    assert gone.mean() == pytest.approx(0.3, abs=0.05)
    assert [("distance" in record) for record, _ in lost] == (~gone).tolist()
    near = readings(reach=1.4)
    assert [("distance" in record) for record, _ in near] == (DISTANCES <= 1.4).tolist()
    assert all(sent for _, sent in near)
    some = readings(first=5, last=9, size=2, rounds=12)
    assert [k for k, (record, _) in enumerate(some) if "distance" in record] == list(range(8, 18))
    kept = [record for record, sent in lost if sent]
    assert kept == [record for (record, _), sent in zip(readings(), ~gone, strict=True) if sent]


def test_with_more_records_a_round_the_target_goes_the_same_way_a_round():
    three = readings(size=3, rounds=100, truth=True)
    said = np.array([[record["target_x"], record["target_y"]] for record, _ in three])
    np.testing.assert_allclose(said[::3], PATH[:100], atol=1e-12)


MOVING = {"target": {"path": "circle", "speed": 0.01}}
BY_TIME = {"by": "time", "start": 100.0, "period": 0.1, "size": 1, "grace": 0}


def closed(folder, slots, rounds=40, **own):
    """Which slots of node b hold a record that can be read, and the feed's counts."""
    tree = changed(nodes=list("abc"), slots=slots, **MOVING)
    tree["mesh"]["slots"] = slots
    tree["nodes"] = {name: {"source": {"kind": "localisation"} | own} for name in "abc"}
    file = loaded(folder, tree)
    source = open_source(file, "b", 0)
    feed = SlotFeed(DataLog(source.records), file.resolved.slots, source.decoder)
    found, position = [], ()
    for round in range(1, rounds + 1):
        slot = feed.close(OpenSlot(round, position))
        position = slot.position
        found.append(disclosed_to_owner(slot.observations).present.tolist())
    return found, disclosed_to_owner(feed.counts)


def test_by_time_what_is_lost_does_not_come_and_slots_close_without_it(tmp_path):
    found, counts = closed(tmp_path, BY_TIME, dropouts=0.4, first=3, last=30)
    assert found[:2] == [[], []]
    assert found[30:] == [[]] * 10
    assert 5 < found[2:30].count([]) < 20
    assert found[2:30].count([True]) == 28 - found[2:30].count([])
    assert counts.read.malformed == 0


def test_by_count_an_unreadable_record_holds_the_place(tmp_path):
    found, counts = closed(tmp_path, {"by": "count", "size": 1}, dropouts=0.4, first=3)
    assert found[:2] == [[False], [False]]
    assert all(len(slot) == 1 for slot in found)
    assert 5 < found.count([False]) < 25
    assert counts.read.malformed == found.count([False])


def test_sensors_of_one_mesh_see_one_target(tmp_path):
    tree = changed(nodes={"a": {}, "b": {"loss": "bearing"}, "c": {}}, **MOVING)
    tree["nodes"] = {name: {"source": {"kind": "localisation", "truth": True}} for name in "abc"}
    file, path = loaded(tmp_path, tree), target_path(0, 50, TargetSettings.model_validate(MOVING["target"]))
    for name in "abc":
        source = open_source(file, name, 0)
        for at, (value, _) in zip(path, source.records, strict=False):
            assert source.decoder.truth(value).tolist() == at.tolist()
            place, label = source.decoder.decode(value)
            u, v = (at - place).tolist()
            exact = math.atan2(v, u) if name == "b" else math.hypot(u, v)
            assert 0 <= label - exact <= 0.001 + 1e-12
