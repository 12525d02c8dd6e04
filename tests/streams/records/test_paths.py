"""The paths of a made-up target: their shapes, their speed, and where they may go."""

import math

import numpy as np
import pytest

from streams.mesh.settings.mesh import TargetSettings
from streams.records.localisation import target_path

SPEED = 0.003
MOVING = ["circle", "figure-eight", "random-manoeuvre", {"waypoints": [[0.5, 0], [0, 0.5], [-0.5, -0.5]]}]


def followed(path, speed=SPEED, seed=3, rounds=4000):
    given = {"path": path} | ({} if speed is None else {"speed": speed})
    return target_path(seed, rounds, TargetSettings.model_validate(given))


@pytest.mark.parametrize("path", MOVING, ids=str)
@pytest.mark.parametrize("speed", [0.0005, 0.003, 0.02])
def test_a_target_moves_at_its_speed_for_the_whole_run(path, speed):
    moves = np.hypot(*np.diff(followed(path, speed), axis=0).T)
    corners = moves < speed * (1 - 1e-3)  # a chord across a bend is shorter than the way
    assert moves.max() <= speed * (1 + 1e-4)
    assert corners.mean() < 0.03
    assert moves[-500:].mean() > 0.98 * speed


def test_the_circle_and_the_figure_of_eight():
    circle, eight = followed("circle"), followed("figure-eight")
    np.testing.assert_allclose(np.hypot(*circle.T), 0.9)
    assert circle[0].tolist() == [0.9, 0.0]
    assert eight[0].tolist() == [0.0, 0.0]
    x, y = eight.T
    np.testing.assert_allclose((y / 0.6) ** 2, 4 * (x / 0.9) ** 2 * (1 - (x / 0.9) ** 2), atol=1e-9)
    assert np.abs(x).max() == pytest.approx(0.9, abs=1e-4)
    assert np.abs(y).max() == pytest.approx(0.6, abs=1e-4)
    half = round(math.pi * 0.9 / SPEED)
    assert math.dist(circle[half], [-0.9, 0.0]) < SPEED


def test_waypoints_are_met_in_turn_and_then_the_first_again():
    square = [[0, 0], [0.3, 0], [0.3, 0.3], [0, 0.3]]
    path = followed({"waypoints": square}, speed=0.1, rounds=25)
    expected = {0: square[0], 3: square[1], 6: square[2], 9: square[3], 12: square[0], 24: square[0]}
    for round, place in expected.items():
        np.testing.assert_allclose(path[round], place, atol=1e-12)
    np.testing.assert_allclose(path[4], [0.3, 0.1], atol=1e-12)


def test_one_waypoint_and_still_stand_still():
    assert (followed({"waypoints": [[0.2, 0.4]]}) == [0.2, 0.4]).all()
    assert (followed("still", speed=None) == [0.8, 0.95]).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("speed", [0.001, 0.01, 0.1, 0.7])
def test_a_manoeuvring_target_turns_back_in_time_and_goes_both_straight_and_round(seed, speed):
    path = followed("random-manoeuvre", speed, seed, round(30 / speed))
    assert np.hypot(*path.T).max() <= 1.25
    if speed <= 0.01:
        turns = np.abs(np.diff(np.unwrap(np.arctan2(*np.diff(path, axis=0).T[::-1])))) / speed
        assert (turns < 1e-6).mean() > 0.1
        assert (turns > 0.5).mean() > 0.1
        assert turns.max() <= 4 * (1 + 1e-6)


def test_only_the_seed_changes_a_random_path_and_a_longer_one_begins_with_the_shorter():
    path = followed("random-manoeuvre")
    assert path.tolist() == followed("random-manoeuvre").tolist()
    assert path.tolist() != followed("random-manoeuvre", seed=4).tolist()
    assert path[:700].tolist() == followed("random-manoeuvre", rounds=700).tolist()
    assert followed("circle", seed=4).tolist() == followed("circle").tolist()


def test_by_default_it_goes_as_in_the_paper():
    assert target_path(3, 600, TargetSettings()).tolist() == target_path(3, 600).tolist()
