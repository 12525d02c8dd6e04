"""The walk: to less loss by factors of two, never more trials than allowed, and no drift where it is flat."""

import math

import pytest

from streams.tools.tuning.trials import MOST, Setting, best, walk

START = Setting(1.0, 1.0, 4)


def quiet(done):
    """Forget it."""


def valley(bound, step, size=4):
    """A loss that is least there, and grows with the distance in factors of two."""

    def loss(setting):
        away = (setting.gradient_bound / bound, setting.step / step, setting.size / size)
        return 1 + sum(math.log2(one) ** 2 for one in away)

    return loss


@pytest.mark.parametrize(("bound", "step"), [(1 / 64, 32), (8, 1 / 8), (1, 1), (1 / 2, 16)])
def test_it_finds_the_bottom_from_afar(bound, step):
    tried = walk(START, valley(bound, step), sizes=False, report=quiet)
    assert best(tried) == Setting(bound, step, 4)
    assert {setting.size for setting in tried} == {4}


def test_sizes_are_tried_where_asked_and_stay_whole():
    tried = walk(START, valley(1, 1, 64), sizes=True, report=quiet)
    assert best(tried).size == 64
    smallest = walk(Setting(1.0, 1.0, 1), valley(1, 1, 1), sizes=True, report=quiet)
    assert min(setting.size for setting in smallest) == 1


def test_a_flat_ridge_ends_the_walk_at_the_largest_clip():
    def flat(setting):
        return 1 + math.log2(setting.gradient_bound * setting.step) ** 2 + setting.gradient_bound * 1e-3

    tried = walk(START, flat, sizes=False, report=quiet)
    assert best(tried) == max(setting for setting in tried if flat(setting) <= min(tried.values()) / 0.98)
    assert len(tried) < MOST / 2


def test_there_is_an_end_to_trials():
    done = []
    tried = walk(START, lambda setting: 1 / setting.step, sizes=False, report=done.append)
    assert len(tried) == MOST == done[-1]


def test_a_setting_that_cannot_be_measured_is_never_the_best():
    tried = walk(START, lambda setting: 1.0 if setting == START else math.inf, sizes=True, report=quiet)
    assert best(tried) == START


def test_gains_are_tilted_where_there_are_any():
    def loss(setting):
        away = (setting.gradient_bound / 0.25, setting.step / 2, setting.tilt / 8)
        return 1 + sum(math.log2(one) ** 2 for one in away)

    assert best(walk(START, loss, sizes=True, report=quiet, tilts=True)) == Setting(0.25, 2.0, 4, 8.0)
    assert {setting.tilt for setting in walk(START, loss, sizes=True, report=quiet)} == {1.0}
