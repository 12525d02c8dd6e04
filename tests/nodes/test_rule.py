"""The rule's tables, row by row; its nu against the mechanisms' own noise; what it does not depend on."""

import ast
import math
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import nodes.rule
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.features import Moments
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.rule import (
    LARGEST_NU,
    PlannedSlots,
    Public,
    PublicUnit,
    chosen,
    noise_multiplier,
    noise_size,
    running_noise,
)

DELTA = 1e-6
ADULT = Public(1_000, 4, 48, 49, 2, Fraction(1), DELTA, entries=12)
PURE = replace(ADULT, delta=None)
TRACKING = Public(5_000, 6, 2, 2, 0, Fraction(1), None, size=1, algorithm="dpdo-nc")
ENDLESS = replace(ADULT, records=None, size=100)


def values(public):
    return {key: choice.value for key, choice in chosen(public).items()}


TABLE = {
    "a delta and a small nu": (
        ADULT,
        {"slots.size": 1_000, "privacy.mechanism": "gaussian", "algorithm.name": "moments"},
    ),
    "a delta and a large nu": (
        replace(ADULT, records=250),
        {"slots.size": 250, "privacy.mechanism": "gaussian", "algorithm.name": "class-sums"},
    ),
    "a delta and class weights": (
        replace(ADULT, weighted=True),
        {"slots.size": 1_000, "privacy.mechanism": "gaussian", "algorithm.name": "class-sums"},
    ),
    "a delta and three classes": (
        replace(ADULT, classes=3),
        {"slots.size": 1_000, "privacy.mechanism": "gaussian", "algorithm.name": "class-sums"},
    ),
    "no delta": (
        PURE,
        {
            "slots.size": 1_000,
            "privacy.mechanism": "laplace",
            "algorithm.name": "class-sums",
            "algorithm.entries": 12,
        },
    ),
    "no delta and class weights": (
        replace(PURE, weighted=True, entries=None),
        {"slots.size": 1_000, "privacy.mechanism": "laplace", "algorithm.name": "class-sums"},
    ),
    "single records": (TRACKING, {"slots.size": 1, "privacy.mechanism": "l2-sphere"}),
    "single records in two dimensions at epsilon 4": (
        replace(TRACKING, epsilon=Fraction(4)),
        {"slots.size": 1, "privacy.mechanism": "l2-sphere"},
    ),
    "single records in two dimensions above epsilon 4": (
        replace(TRACKING, epsilon=Fraction(401, 100)),
        {"slots.size": 1, "privacy.mechanism": "laplace"},
    ),
    "single records in three dimensions above epsilon 4": (
        replace(TRACKING, epsilon=Fraction(5), dimension=3),
        {"slots.size": 1, "privacy.mechanism": "l2-sphere"},
    ),
    "gradients of slots, no delta": (
        replace(TRACKING, size=10),
        {"slots.size": 1, "privacy.mechanism": "laplace"},
    ),
    "gradients of 500 rounds, a delta": (
        replace(TRACKING, size=10, delta=DELTA),
        {"slots.size": 1, "privacy.mechanism": "gaussian"},
    ),
    "gradients of 501 rounds, a delta": (
        replace(TRACKING, size=10, records=5_001, delta=DELTA),
        {"slots.size": 1, "privacy.mechanism": "gaussian-bisr", "privacy.bands": 64},
    ),
    "gradients without an end, a delta": (
        replace(TRACKING, records=None, delta=DELTA),
        {"slots.size": 1, "privacy.mechanism": "gaussian-bisr", "privacy.bands": 64},
    ),
    "a few rounds of noise that is asked for": (
        replace(TRACKING, size=1_000, delta=DELTA, mechanism="gaussian-bisr"),
        {"slots.size": 1, "privacy.mechanism": "gaussian", "privacy.bands": 5},
    ),
    "classes without an end, a delta": (
        ENDLESS,
        {
            "slots.size": 1,
            "privacy.mechanism": "gaussian-bisr",
            "algorithm.name": "moments",
            "privacy.bands": 64,
        },
    ),
    "releases above 5,000 numbers": (
        replace(ENDLESS, columns=100, dimension=101),
        {
            "slots.size": 1,
            "privacy.mechanism": "gaussian-bisr",
            "algorithm.name": "moments",
            "privacy.bands": 16,
        },
    ),
}


@pytest.mark.parametrize("row", TABLE)
def test_each_row_of_the_table(row):
    public, wanted = TABLE[row]
    assert values(public) == wanted | {k: v for k, v in values(public).items() if k == "algorithm.kappa"}


@pytest.mark.parametrize("records", [250, 1_000, 7_733])
@pytest.mark.parametrize("members", [4, 64])
def test_nu_is_that_of_the_mechanism_s_own_noise(records, members):
    public, sums = replace(ADULT, records=records, members=members), Moments(48, 1.0)
    mechanism = GaussianGradient(
        1.0, Fraction(1), DELTA, records, sums.length, SimulatedSampler(0, "a"), features=sums
    )
    own = math.sqrt(2 * 48 / members) * mechanism.noise_scale(1)
    nu = noise_size(public, PlannedSlots(records, 1, "gaussian"), Fraction(1), DELTA)
    assert nu == pytest.approx(own, rel=1e-3)


@pytest.mark.parametrize(("rounds", "bands"), [(8, 8), (40, 16), (700, 64)])
def test_nu_of_correlated_noise_is_that_of_the_mechanism_summed_over_rounds(rounds, bands):
    sums = Moments(5, 1.0)
    mechanism = GaussianBisr(
        1.0, Fraction(1), DELTA, 10, sums.length, SimulatedSampler(0, "a"), bands, features=sums
    )
    factors = np.append(1.0, -mechanism.matrix.weights * 2.0**-30)
    draws = [float(factors[: rounds - t].sum()) for t in range(rounds)]  # how often each is in the sum
    draw = mechanism.noise_scale(1) / mechanism.matrix.row_norm
    own = math.sqrt(2 * 5 / 4) * draw * math.sqrt(sum(count * count for count in draws)) / rounds
    public = replace(ADULT, columns=5, dimension=6)
    nu = noise_size(public, PlannedSlots(10, rounds, "gaussian-bisr"), Fraction(1), DELTA, bands=bands)
    assert nu == pytest.approx(own, rel=1e-3)


@pytest.mark.parametrize("side", [0.99, 1.01])
def test_moments_end_where_nu_passes_its_threshold(side):
    nu = noise_size(ADULT, PlannedSlots(1_000, 1, "gaussian"), Fraction(1), DELTA)
    at_threshold = round(1_000 * nu / LARGEST_NU / side)
    name = values(replace(ADULT, records=at_threshold))["algorithm.name"]
    assert name == ("moments" if side < 1 else "class-sums")


@pytest.mark.parametrize("values_out_of_range", [(0.0, DELTA), (1.0, 0.0), (1.0, 1.0), (math.inf, DELTA)])
def test_noise_out_of_range_is_infinite(values_out_of_range):
    assert noise_multiplier(*values_out_of_range) == math.inf


SINGLE = replace(PURE, size=1, records=2_000)


def test_one_record_a_slot_of_a_class_has_a_step_a_set_and_a_clip_that_does_not_bite():
    choices = values(SINGLE)
    assert choices["algorithm.name"] == "dpdo-nc"
    assert choices["algorithm.constraint"] == {"l2-ball": 1.0}
    assert choices["privacy.gradient_bound"] >= math.hypot(1, 1 / 3)
    length = L2Sphere(choices["privacy.gradient_bound"], Fraction(1), 1, 49, SimulatedSampler(0, "a")).length
    step = choices["algorithm.step_size"]
    assert step["rule"] == "constant"
    assert step["a"] == pytest.approx(math.sqrt(4 / 2_000) / length, rel=1e-2)
    endless = values(replace(SINGLE, records=None))["algorithm.step_size"]
    assert endless["rule"] == "inverse-sqrt"
    assert endless["a"] == pytest.approx(2 / length, rel=1e-2)


@pytest.mark.parametrize("mechanism", ["laplace", "none", "gaussian", "l2-sphere"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**7), Fraction(1), Fraction(10**5), None])
def test_choices_are_finite_and_have_reasons_whatever_is_given(mechanism, epsilon):
    for classes in (0, 2, 7):
        public = replace(SINGLE, mechanism=mechanism, epsilon=epsilon, algorithm="dola", classes=classes)
        for choice in chosen(public).values():
            assert choice.why
            assert "inf" not in str(choice.value)
            assert "nan" not in str(choice.value)


def test_a_choice_that_is_given_back_changes_nothing():
    for public in (ADULT, PURE, ENDLESS, replace(ADULT, records=250), SINGLE):
        choices = values(public)
        given = replace(
            public,
            size=public.size or choices["slots.size"],
            algorithm=choices["algorithm.name"],
            mechanism=choices["privacy.mechanism"],
        )
        assert values(given) | {"slots.size": 0} == choices | {"slots.size": 0}


def test_the_rule_reads_public_values_alone():
    assert {field.name for field in fields(Public)} == {
        *("records", "members", "entries", "columns", "dimension", "classes", "weighted", "epsilon", "delta"),
        *("size", "algorithm", "mechanism", "unit"),
    }


def test_the_module_has_no_clock_no_randomness_and_reads_no_file():
    tree = ast.parse(Path(nodes.rule.__file__).read_text())
    modules = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
    }
    assert {name.partition(".")[0] for name in modules} == {
        *("math", "collections", "dataclasses", "fractions", "typing", "numpy", "nodes"),
    }
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert not any(name.startswith(("np.random", "open")) for name in used)


# With a privacy unit.

UNIT = replace(ADULT, unit=PublicUnit(None, None, None))
GIVEN = replace(TRACKING, size=None, delta=DELTA, algorithm="dola")


def of_unit(public, k=None, b=None, rounds=None, **changes):
    return values(replace(public, unit=PublicUnit(k, b, rounds), **changes))


WITH_UNIT = {
    "nothing given: one slot, one record of a person": (
        of_unit(UNIT),
        {"slots.size": 1_000, "rounds": 1, "privacy.unit.records": 1, "privacy.mechanism": "gaussian"},
    ),
    "no delta": (of_unit(UNIT, delta=None), {"privacy.mechanism": "laplace", "algorithm.entries": 12}),
    "k is given: so many slots": (
        of_unit(UNIT, 5),
        {"slots.size": 200, "rounds": 5, "privacy.unit.apart": 1},
    ),
    "T is given, up to 8": (of_unit(UNIT, None, None, 8), {"slots.size": 125, "privacy.unit.records": 8}),
    "T is given, above 8, a delta": (
        of_unit(UNIT, None, None, 100),
        {"privacy.unit.records": 20, "privacy.unit.apart": 5, "privacy.mechanism": "gaussian-bisr"},
    ),
    "T is given, above 8, no delta": (
        of_unit(UNIT, None, None, 100, delta=None),
        {"privacy.unit.records": 5, "privacy.unit.apart": 20, "privacy.mechanism": "laplace"},
    ),
    "the size is given": (of_unit(UNIT, size=10), {"slots.size": 1_000, "rounds": 100, "privacy.bands": 4}),
    "gradients, k = 8": (of_unit(GIVEN, 8), {"privacy.mechanism": "laplace"}),
    "gradients, k = 9": (of_unit(GIVEN, 9), {"privacy.mechanism": "gaussian"}),
    "without an end": (
        of_unit(UNIT, 5, 10, records=None),
        {"slots.size": 1, "privacy.mechanism": "gaussian-bisr"},
    ),
}


@pytest.mark.parametrize("row", WITH_UNIT)
def test_each_row_of_the_table_with_a_unit(row):
    choices, wanted = WITH_UNIT[row]
    assert {key: choices.get(key) for key in wanted} == wanted


def test_a_persons_rounds_fit_the_run():
    for rounds, delta in [(rounds, delta) for rounds in range(1, 60) for delta in (None, DELTA)]:
        choices = of_unit(UNIT, None, None, rounds, delta=delta)
        k, b = choices["privacy.unit.records"], choices["privacy.unit.apart"]
        assert b == -(-rounds // k)
        assert (k - 1) * b < rounds <= k * b


@pytest.mark.parametrize(
    ("k", "apart", "rounds", "by_bands"),
    [
        (20, 1, 20, {4: 1.30, 16: 1.81, 64: 2.19}),
        (5, 1, 20, {16: 1.10}),
        (5, 4, 20, {16: 0.95}),
        (20, 5, 100, {4: 0.55, 16: 0.67, 64: 0.92}),
        (20, 50, 1_000, {4: 0.40, 16: 0.23, 64: 0.21}),
    ],
)
def test_the_noise_of_running_sums_is_that_of_the_matrices(k, apart, rounds, by_bands):
    for bands, ratio in by_bands.items():
        inverse, r = np.eye(rounds), 1.0
        for lag in range(1, min(bands, rounds)):
            r *= (lag - 1.5) / lag
            inverse += r * np.eye(rounds, k=-lag)
        sums = np.tril(np.ones((rounds, rounds))) @ inverse
        columns = np.linalg.inv(inverse)[:, : (k - 1) * apart + 1 : apart].sum(1)
        independent = math.sqrt(k * (rounds + 1) / 2)
        noise = math.sqrt((sums**2).sum(1).mean()) / independent
        assert noise * np.linalg.norm(columns) <= ratio + 0.005
        assert running_noise(bands, k, apart, rounds) / independent == pytest.approx(ratio, abs=0.006)
