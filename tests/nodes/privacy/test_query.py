"""An owner's answers: sensitivity, law and scale of the noise, epsilon of T answers, kappa, audit, edges."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.accounting.calibration import discrete_delta
from nodes.audit import audit, audit_answers, lattice_holds
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.private import Private
from nodes.privacy.query import QueryMechanism
from nodes.privacy.reveal import opened
from nodes.sparse import SparseRows
from tests.support.oracles.gaussian_noise import has_scale

NAMES = ("laplace", "gaussian")


class Silent(SimulatedSampler):
    """No noise."""

    def laplace(self, round, values, scale):
        return values

    gaussian = laplace


def made(name="laplace", kind=QueryMechanism, **changes) -> QueryMechanism:
    options = {
        "gradient_bound": 0.5,
        "epsilon": Fraction(2),
        "delta": 0.0 if name == "laplace" else 1e-6,
        "queries": 10,
        "sharing": 1,
        "records": 4,
        "dimension": 2,
        "sampler": ExactSampler(),
    }
    return kind(name, **options | changes)


def summed(mechanism, rows, *cuts):
    total = mechanism.begin()
    for part in np.split(np.array(rows, dtype=np.float64), cuts):
        total = mechanism.add(total, Private(part))
    return total


@pytest.mark.parametrize("name", NAMES)
def test_replacing_one_record_moves_the_sum_by_at_most_2k(name):
    mechanism, radius = made(name), made(name).answers.grid.radius
    corners = [0.0, 0.5, -0.5, 0.36, 1e300, -1e-300, math.inf, math.nan]
    rows = [list(row) for row in product(corners, repeat=2)]
    points = np.array([opened(summed(mechanism, [row])).total for row in rows])
    moves = np.abs(points[:, None] - points[None])
    lengths = moves.sum(-1) if name == "laplace" else np.sqrt((moves.astype(float) ** 2).sum(-1))
    assert lengths.max() <= 2 * radius
    assert lengths.max() > 1.9 * radius


@given(
    rows=st.lists(st.tuples(*[st.floats(-2, 2)] * 2), min_size=4, max_size=4),
    cuts=st.sets(st.integers(0, 4)),
    name=st.sampled_from(NAMES),
)
def test_how_a_set_is_cut_into_chunks_does_not_matter(rows, cuts, name):
    mechanism = made(name, sampler=SimulatedSampler(1, "a"))
    whole, cut = summed(mechanism, rows), summed(mechanism, rows, *sorted(cuts))
    assert opened(whole).total.tolist() == opened(cut).total.tolist()
    assert opened(whole)[1:] == opened(cut)[1:]
    assert mechanism.answer(3, whole).tobytes() == mechanism.answer(3, cut).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_mean_of_the_clipped_gradients(name):
    rows = [[0.25, 0.125], [0.0, 0.0], [3.0, 4.0], [math.nan, 0.0]]
    mechanism = made(name, sampler=Silent(1, "a"))
    total = summed(mechanism, rows, 1)
    long = [3 / 14, 4 / 14] if name == "laplace" else [0.3, 0.4]
    expected = [(0.25 + long[0]) / 4, (0.125 + long[1]) / 4]
    assert mechanism.answer(1, total) == pytest.approx(expected, abs=1e-8)
    assert opened(total)[1:] == (4, 1, 1)
    few = made(name, sampler=Silent(1, "a"), records=8)
    assert few.answer(1, summed(few, rows)) == pytest.approx([x / 2 for x in expected], abs=1e-8)


def test_sparse_gradients_give_the_same_sum():
    dense = np.array([[0.0, 0.3], [2.0, 0.0]])
    sparse = SparseRows.of([(np.array([1]), np.array([0.3])), (np.array([0]), np.array([2.0]))], 2)
    for name in NAMES:
        mechanism = made(name)
        found = opened(mechanism.add(mechanism.begin(), Private(sparse))).total
        assert found.tolist() == opened(summed(mechanism, dense)).total.tolist()


# ------------------------------------------------------------------------------------- scale and law


@pytest.mark.parametrize("sharing", [1, 3])
def test_laplace_is_scaled_as_printed(sharing):
    """Wu et al. 2020, theorem 1: 2 Xi T/(n epsilon), here times kappa, and never below."""
    mechanism = made(sharing=sharing)
    printed = 2 * 0.5 * 10 * sharing / (4 * 2)
    assert mechanism.noise_scale == pytest.approx(printed, rel=1e-8)
    assert mechanism.answers.scale >= 2 * mechanism.answers.grid.radius * 10 * sharing / 2


def sample(mechanism, rounds=4_000):
    """The noise of answers on a silent sum, in units of the mean gradient."""
    total = mechanism.begin()
    return np.array([mechanism.answer(1, total) for _ in range(rounds)])


def test_the_noise_is_laplace_of_that_scale_and_no_other():
    mechanism, wrong = made(), made(epsilon=Fraction(3))
    drawn = np.abs(sample(mechanism)).ravel()
    # |x|/scale is exponential: its mean and its tail, within five standard errors
    for scale, right in ((mechanism.noise_scale, True), (wrong.noise_scale, False)):
        assert bool(abs((drawn / scale).mean() - 1) < 5 / math.sqrt(drawn.size)) is right
    assert (drawn > 3 * mechanism.noise_scale).mean() == pytest.approx(math.exp(-3), abs=0.012)


def test_the_noise_is_gaussian_of_that_scale_and_no_other():
    mechanism = made("gaussian")
    drawn = sample(mechanism, 5_000)
    assert has_scale(drawn, mechanism.noise_scale)
    assert not has_scale(drawn, mechanism.noise_scale * 1.25)


@pytest.mark.parametrize(("queries", "sharing"), [(1, 1), (10, 1), (100, 2), (1000, 1)])
def test_t_gaussian_answers_together_are_epsilon_delta_over_kappa(queries, sharing):
    mechanism = made("gaussian", queries=queries, sharing=sharing)
    answers = mechanism.answers
    whole = math.sqrt(queries) * 2 * answers.grid.radius
    sum_epsilons = discrete_delta(2 / sharing, whole, answers.scale, 2 * queries)
    assert sum_epsilons <= 1e-6 / sharing
    assert sum_epsilons > 0.99e-6 / sharing  # and no more noise than that takes
    less = discrete_delta(2 / sharing, whole, answers.scale * 0.99, 2 * queries)
    assert less > 1e-6 / sharing


def test_gaussian_needs_less_noise_over_many_queries():
    laplace, gaussian = made(queries=100), made("gaussian", queries=100)
    assert gaussian.noise_deviation < laplace.noise_deviation / 3


# ---------------------------------------------------------------------------------------- accounting


@pytest.mark.parametrize("sharing", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_t_answers_spend_epsilon_over_kappa_and_never_more(name, sharing):
    mechanism = made(name, sharing=sharing)
    spent = [mechanism.spent(charged) for charged in range(11)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert len(set(spent)) == 11
    assert spent[10] == pytest.approx(2 / sharing)
    assert spent[10] <= 2 / sharing
    assert mechanism.spent(11) == math.inf
    if name == "laplace":
        assert spent[1] == 2 / sharing / 10


class Faint(ExactSampler):
    """The fault: half of the noise."""

    def laplace(self, round, values, scale):
        return super().laplace(round, values, scale / 2)

    def gaussian(self, round, values, scale):
        return super().gaussian(round, values, scale / 2)


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_finds_no_more_than_an_answer_claims_and_finds_a_fault(name):
    one = {"queries": 1, "epsilon": Fraction(4)}
    assert not audit(made(name, **one).audited, 10_000).refuted
    assert audit(made(name, sampler=Faint(), **one).audited, 10_000).refuted
    assert lattice_holds(made(name, **one).audited, 20)
    assert made(name).audited.batch_size == 1


class Forgetful(QueryMechanism):
    """The fault: noise for one answer, not for T."""

    __slots__ = ()

    def _mechanism(self, records):
        one = {"epsilon": self.epsilon, "sharing": self.sharing, "queries": 1, "records": records}
        return made(self.name, sampler=self.sampler, **one).answers


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sharing", [1, 2])
def test_an_audit_of_all_answers_finds_no_more_than_they_claim_and_finds_faults(name, sharing):
    sound = audit_answers(made(name, epsilon=Fraction(20), sharing=sharing), 4_000, 0.999)
    assert (sound.claimed, sound.refuted) == (20 / sharing, False)
    assert sound.lower_bound > 0.3 * sound.claimed
    for fault in ({"sampler": Faint()}, {"kind": Forgetful}):
        wrong = made(name, epsilon=Fraction(20), sharing=sharing, **fault)
        assert audit_answers(wrong, 4_000, 0.999).refuted


def test_an_audit_of_answers_with_seeded_noise_is_refused():
    with pytest.raises(ValueError, match="the noise is simulated"):
        audit_answers(made(sampler=SimulatedSampler(1, "a")), 100)


# ---------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("query", [0, -1, 11])
def test_a_query_outside_1_to_t_is_refused(query):
    mechanism = made()
    with pytest.raises(ValueError, match="must be from 1 to 10"):
        mechanism.answer(query, mechanism.begin())


def test_more_records_than_the_public_number_are_refused():
    mechanism = made()
    total = summed(mechanism, np.zeros((4, 2)))
    with pytest.raises(ValueError, match="must be of shape"):
        mechanism.add(total, Private(np.zeros((1, 2))))


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_within_its_public_bound(name):
    class Wild(SimulatedSampler):
        def laplace(self, round, values, scale):
            return values + np.array([1 << 61, -(1 << 61)])

        gaussian = laplace

    mechanism = made(name, sampler=Wild(1, "a"))
    answer = mechanism.answer(1, mechanism.begin())
    assert answer.tolist() == [mechanism.largest, -mechanism.largest]
    assert math.hypot(*answer) <= mechanism.response_bound


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"queries": 0}, "queries"),
        ({"sharing": 0}, "sharing"),
        ({"records": 0}, "records"),
        ({"epsilon": Fraction(1, 10**9)}, "epsilon"),
        ({"epsilon": Fraction(1, 10**6), "queries": 10**3}, "epsilon"),
        ({"gradient_bound": math.inf}, "theta"),
    ],
)
def test_settings_out_of_range_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        made(**changes)


def test_gaussian_needs_a_delta():
    with pytest.raises(ValueError, match="delta"):
        made("gaussian", delta=0.0)
