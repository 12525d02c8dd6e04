"""Which mechanisms are audited, and with how many draws."""

from fractions import Fraction

import pytest

from nodes.privacy.exact import ExactSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from streams.status.audit_mechanisms import DRAWS, PAIRS, affordable, subjects
from tests.support.meshes.files import changed, loaded

EXACT = {"noise": "exact"}


def test_nodes_with_the_same_settings_are_audited_once(tmp_path):
    nodes = {"a": {}, "b": {"mechanism": "l2-sphere"}, "c": {}, "d": {"mechanism": "none"}}
    mesh = loaded(tmp_path, changed(nodes=nodes, privacy=EXACT)).resolved
    found = {subject.nodes: type(subject.mechanism) for subject in subjects(mesh, nodes)}
    assert found == {("a", "c"): LaplaceGradient, ("b",): L2Sphere, ("d",): type(None)}
    assert [subject.nodes for subject in subjects(mesh, ["c"])] == [("c",)]


def test_noise_on_the_parameters_and_with_a_delta_can_be_audited(tmp_path):
    privacy = EXACT | {"on": "parameters", "norm": "l2"}
    (subject,) = subjects(loaded(tmp_path, changed(privacy=privacy)).resolved, "a")
    assert type(subject.mechanism) is LaplaceParameters
    privacy = EXACT | {"mechanism": "gaussian", "delta": 1e-6}
    (subject,) = subjects(loaded(tmp_path, changed(privacy=privacy)).resolved, "a")
    assert type(subject.mechanism) is GaussianGradient


def test_of_an_epsilon_that_grows_the_round_with_the_least_noise_is_audited(tmp_path):
    epsilon = {"total": 10, "rounds": 25, "schedule": "growing"}
    mesh = loaded(tmp_path, changed(privacy=EXACT | {"epsilon": epsilon})).resolved
    (subject,) = subjects(mesh, "a")
    assert subject.round == 25
    assert type(subject.mechanism) is LaplaceGradient
    assert subject.mechanism.epsilon > Fraction(10, 25)


@pytest.mark.parametrize(
    ("batch", "dimension", "laplace", "sphere"),
    [
        (1, 2, (DRAWS, PAIRS), (DRAWS, PAIRS)),
        (8, 1000, (2000, PAIRS), (13_157, PAIRS)),
        (1, 10**6, (100, 10), (127, 12)),
    ],
)
def test_draws_that_take_long_are_fewer(batch, dimension, laplace, sphere):
    settings = (0.5, Fraction(1), batch, dimension, ExactSampler())
    assert affordable(LaplaceGradient(*settings)) == laplace
    assert affordable(L2Sphere(*settings)) == sphere
