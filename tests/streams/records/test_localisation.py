"""The localisation example against its formulas, in a plain loop."""

import json
import math
from itertools import islice

import numpy as np
import pytest

from streams.mesh.settings.node import LocalisationSettings
from streams.records.localisation import Readings, sensor, target_path

ROUNDS = 600


def measurements(seed, number, position, **own):
    settings = LocalisationSettings(kind="localisation", **own)
    return (value for value, _ in Readings(seed, number, position, settings))


def test_the_target_starts_and_moves_as_printed():
    path = target_path(3, ROUNDS)
    assert path[0].tolist() == [0.8, 0.95]
    coins = []
    for t in range(1, ROUNDS):
        moved = path[t] - path[t - 1]
        q = 0 if abs(moved[1]) < 1e-15 else 1
        coins.append(q)
        assert moved[0] == pytest.approx((-1) ** q * math.sin(t / 50) / (10 * t), abs=1e-12)
        assert moved[1] == pytest.approx(-q * math.cos(t / 70) / (40 * t), abs=1e-12)
    assert 0.4 < np.mean(coins) < 0.6


def test_a_longer_path_begins_with_the_shorter_one():
    assert target_path(3, 10).tolist() == target_path(3, ROUNDS)[:10].tolist()
    assert target_path(3, 10).tolist() != target_path(4, 10).tolist()


def test_sensors_stand_evenly_on_a_circle():
    for k in range(6):
        x, y = sensor(k, 6)
        assert (x, y) == pytest.approx((1.5 * math.cos(k * math.pi / 3), 1.5 * math.sin(k * math.pi / 3)))


def test_a_sensor_measures_the_distance_to_the_shared_target():
    path = target_path(3, ROUNDS)
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
    assert errors[:ROUNDS] != errors[ROUNDS:]


def test_a_record_may_say_where_the_target_is_and_is_else_the_same():
    path = target_path(3, ROUNDS)
    plain, said = (
        list(islice(measurements(3, 1, (1.0, 0.0), truth=truth), ROUNDS)) for truth in (False, True)
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
