"""What the utility table is made of: runs side by side are those one by one; no row is in two parts."""

import numpy as np
import pytest

from experiments.harness import localisation
from experiments.harness.adult import adult
from experiments.harness.localisation import measured, printed_regret, printed_regrets, regret, regrets
from streams.tools.tuning.pilot import MovingTargets

LAPLACE = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 1.0}
NONE = {"mechanism": "none", "norm": "l2", "gradient_bound": 100.0}


def test_runs_side_by_side_are_the_runs_one_by_one():
    together = regrets(5, NONE, 0.5, 40, 3)
    for run in range(3):
        alone = regret(5 + run, rounds=40, privacy=NONE, step=0.5)["regret"]
        assert together[run].tobytes() == alone.tobytes()
    printed = printed_regrets(5, None, 40, 3)
    assert printed[2].tobytes() == printed_regret(7, rounds=40, epsilon=None)["regret"].tobytes()


@pytest.mark.parametrize("printed", [True, False])
def test_private_runs_side_by_side_have_noise_of_their_own(monkeypatch, printed):
    monkeypatch.setattr(localisation, "measured", lambda _, rounds: measured(0, rounds))  # one target
    together = printed_regrets(5, 1.0, 40, 2) if printed else regrets(5, LAPLACE, 0.5, 40, 2)
    assert not np.allclose(together[0], together[1])


def test_the_pilot_is_not_what_is_reported():
    features, labels = measured(0, 50)
    slots = list(MovingTargets().slots(50, 6, 1, 4, 0))
    assert slots[0].features[:6].tobytes() == features[0].tobytes()  # the same sensors
    for run in range(4):
        pilot = np.array([slot.labels[6 * run : 6 * run + 6, 0] for slot in slots])
        assert np.abs(pilot - labels[:, :, 0]).mean() > 0.01


def test_the_public_rows_are_a_twentieth_and_not_learnt_from():
    parts = adult()
    assert [len(one[1]) for one in parts] == [1628, 30933, 16281]
    everything = np.concatenate([parts.pilot[0], parts.train[0]])
    ages = np.sort(everything[:, 0])
    assert len(everything) == 32_561
    assert ages[0] < ages[-1]
    positives = sum(int((one[1] > 0).sum()) for one in parts[:2])
    assert positives == pytest.approx(7841)
