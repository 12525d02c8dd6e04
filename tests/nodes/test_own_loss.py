"""A user's own loss behind the wrapper: one record speaks in one gradient, and no failure says anything."""

import numpy as np
import pytest

from nodes.losses.evaluation import predicted, slot_gradients
from nodes.losses.losses import Hinge, Softmax, Squared
from nodes.losses.own_loss import ANOTHER_SHAPE, OwnLoss
from nodes.values import Observations


def records(n, p=2, seed=0):
    rng = np.random.default_rng(seed)
    return Observations(rng.normal(size=(n, p)), rng.normal(size=n), np.arange(n) % 4 != 3)


def wrapped(loss):
    own = OwnLoss(loss)
    return own, own.failures


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize(("loss", "d"), [(Squared(), 2), (Softmax(3), 6)], ids=["squared", "softmax"])
def test_a_sound_loss_gives_what_it_gives_alone(loss, d, n):
    own, failures = wrapped(loss)
    o, x = records(n)._replace(labels=np.arange(float(n)) % 3), np.random.default_rng(1).normal(size=d)
    np.testing.assert_array_equal(own.value(x, o), loss.value(x, o))
    np.testing.assert_array_equal(own.gradients(x, o), loss.gradients(x, o))
    assert not failures


def test_leading_axes_are_kept():
    own, _ = wrapped(Squared())
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 3, 2))
    o = Observations(rng.normal(size=(4, 1, 5, 2)), rng.normal(size=(4, 1, 5)), rng.random((4, 1, 5)) < 0.7)
    np.testing.assert_array_equal(own.value(x, o), Squared().value(x, o))
    np.testing.assert_array_equal(own.gradients(x, o), Squared().gradients(x, o))


class Raising(Squared):
    def gradients(self, decision, observations):
        if (observations.labels > 0).any():
            raise KeyError(f"secret {observations.labels}")
        return super().gradients(decision, observations)

    value = gradients


class Mixing(Squared):
    """The gradient of each record is the mean of all that it is given."""

    def gradients(self, decision, observations):
        rows = super().gradients(decision, observations)
        return np.broadcast_to(rows.mean(0), rows.shape)


class Changing(Squared):
    """Leaves its records in the decision, and the decision in the records."""

    def gradients(self, decision, observations):
        rows = super().gradients(decision, observations)
        decision += observations.features[0]
        observations.features[:] = 7.0
        observations.labels[:] = 7.0
        observations.present[:] = False
        return rows


class Transposed(Squared):
    def gradients(self, decision, observations):
        return super().gradients(decision, observations).T

    def value(self, decision, observations):
        return float(super().value(decision, observations).sum())


class Complex(Squared):
    def gradients(self, decision, observations):
        return super().gradients(decision, observations) * 1j


def test_a_loss_that_raises_is_counted_by_type_and_breaks_its_own_record_alone():
    own, failures = wrapped(Raising())
    o, x = records(8), np.array([0.3, 0.2])
    rows = own.gradients(x, o)
    bad = o.present & (o.labels > 0)
    assert 0 < bad.sum() < o.present.sum()
    assert np.isnan(rows[bad]).all()
    np.testing.assert_array_equal(rows[~bad], Squared().gradients(x, o)[~bad])
    assert set(failures) == {"KeyError"}
    assert np.isnan(own.value(x, o)[bad]).all()


@pytest.mark.parametrize("loss", [Transposed(), Complex()], ids=lambda loss: type(loss).__name__)
def test_another_shape_or_dtype_is_broken(loss):
    own, failures = wrapped(loss)
    rows = own.gradients(np.ones(2), records(3))
    assert np.isnan(rows).all()
    assert set(failures) == {ANOTHER_SHAPE}


def test_no_gradient_is_made_of_two_records():
    own, _ = wrapped(Mixing())
    o, x = records(3), np.array([0.3, 0.2])
    np.testing.assert_array_equal(own.gradients(x, o), Squared().gradients(x, o))
    assert not np.allclose(slot_gradients(Mixing(), x, o), Squared().gradients(x, o))


def test_nothing_gets_into_the_public_decision():
    own, _ = wrapped(Changing())
    o, x = records(3), np.array([0.3, 0.2])
    kept = [part.copy() for part in o]
    np.testing.assert_array_equal(own.gradients(x, o), Squared().gradients(x, o))
    assert x.tolist() == [0.3, 0.2]
    assert all(np.array_equal(part, copy) for part, copy in zip(o, kept, strict=True))


class Sure(Hinge):
    def predict(self, decision, features):
        return np.full(len(features), 0.5)


class Shouting(Hinge):
    def predict(self, decision, features):
        raise ValueError(f"secret {features}")


def test_predictions_are_its_own_or_scores():
    features, x = records(3).features, np.array([0.3, 0.2])
    own, _ = wrapped(Sure())
    assert predicted(own, x, features).tolist() == [0.5, 0.5, 0.5]
    own, failures = wrapped(Hinge())
    np.testing.assert_allclose(predicted(own, x, features), features @ x, rtol=1e-15)
    assert not failures
    with pytest.raises(ValueError, match="2 features at dimension 6: the own loss must have a `predict`"):
        predicted(wrapped(Softmax(3))[0], np.ones(6), features)


class Choosy(Sure):
    def predict(self, decision, features):
        if (features > 1e300).any():
            raise ValueError(f"secret {features}")
        return features[:, 0] * 2


@pytest.mark.parametrize("place", [0, 4, 8])
def test_a_record_that_it_cannot_predict_costs_no_other_its_prediction(place):
    features, x = records(9).features, np.array([0.3, 0.2])
    features[place] = 1e301
    own, failures = wrapped(Choosy())
    wanted = features[:, 0] * 2
    wanted[place] = np.nan
    np.testing.assert_array_equal(predicted(own, x, features), wanted)
    assert set(failures) == {"ValueError"}
    own, failures = wrapped(Shouting())
    assert np.isnan(predicted(own, x, features)).all()  # and no score in its place
    assert set(failures) == {"ValueError"}


class Leaving:
    """Whatever ends a process, with the record in it."""

    def __init__(self, kind):
        self.kind = kind

    def gradients(self, decision, observations):
        if (observations.labels > 0).any():
            raise self.kind(f"secret {observations.labels}")
        return Squared().gradients(decision, observations)

    value = gradients

    def predict(self, decision, features):
        raise self.kind(f"secret {features}")


class Strange(np.ndarray):
    """An answer that raises when it is looked at."""

    @property
    def shape(self):
        raise SystemExit("secret")


class Estranged(Squared):
    def gradients(self, decision, observations):
        return super().gradients(decision, observations).view(Strange)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
def test_what_would_end_the_process_breaks_its_own_record_alone(kind):
    own, failures = wrapped(Leaving(kind))
    o, x = records(8), np.array([0.3, 0.2])
    rows = own.gradients(x, o)
    bad = o.present & (o.labels > 0)
    assert 0 < bad.sum() < o.present.sum()
    assert np.isnan(rows[bad]).all()
    np.testing.assert_array_equal(rows[~bad], Squared().gradients(x, o)[~bad])
    assert set(failures) == {kind.__name__}
    assert np.isnan(own.value(x, o)[bad]).all()
    assert np.isnan(own.predict(x, o.features)).all()


def test_an_answer_that_raises_when_it_is_looked_at_is_broken():
    own, failures = wrapped(Estranged())
    assert np.isnan(own.gradients(np.ones(2), records(3))).all()
    assert set(failures) == {"SystemExit"}


class Shy(Squared):
    """To ask for its methods is a call of a user's code, too."""

    @property
    def gradients(self):
        raise SystemExit("secret")

    value = predict = gradients


def test_asking_for_a_method_is_contained():
    own, failures = wrapped(Shy())
    o, x = records(3), np.ones(2)
    assert np.isnan(own.gradients(x, o)).all()
    assert np.isnan(own.value(x, o)).all()
    assert np.isnan(own.predict(x, o.features)).all()
    assert set(failures) == {"SystemExit"}
