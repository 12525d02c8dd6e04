"""`gaussian-bisr` in a mesh file: its keys, its mechanism, its account, its words."""

import math
from fractions import Fraction

import pytest

from nodes.accounting.releases import BandComposition
from nodes.privacy.bisr import GaussianBisr
from streams.mesh.file import MeshFileError
from streams.terminal.plan_text import facts
from tests.support.meshes.files import changed, loaded


def meshed(folder, mesh=None, **privacy):
    own = {"mechanism": "gaussian-bisr", "delta": 1e-6} | privacy
    return loaded(folder, changed(privacy=own, **(mesh or {})))


def others_of(nodes):
    tree = changed(privacy={"mechanism": "gaussian-bisr", "delta": 1e-6})
    tree["mesh"]["nodes"] = nodes
    return tree


def made(file, node="a"):
    return file.resolved.node(node).mechanism


def test_it_has_sixteen_bands_in_l2_unless_told_otherwise(tmp_path):
    mechanism = made(meshed(tmp_path))
    assert isinstance(mechanism, GaussianBisr)
    settings = (mechanism.bands, mechanism.theta, mechanism.epsilon, mechanism.delta, mechanism.batch_size)
    assert settings == (16, 0.5, 1, 1e-6, 1)
    assert made(meshed(tmp_path, bands=1024)).bands == 1024


def test_a_node_may_have_other_bands_or_another_mechanism(tmp_path):
    nodes = {"a": None, "b": {"bands": 4}, "c": {"mechanism": "laplace"}, "d": None}
    file = loaded(tmp_path, others_of(nodes))
    assert [made(file, name).name for name in "abc"] == ["gaussian-bisr", "gaussian-bisr", "laplace"]
    assert [made(file, name).bands for name in "ab"] == [16, 4]


def test_bands_are_in_the_digest_and_absent_where_there_are_none(tmp_path):
    assert meshed(tmp_path).digest() == meshed(tmp_path, bands=16).digest()
    assert meshed(tmp_path).digest() != meshed(tmp_path, bands=17).digest()
    assert "bands" not in loaded(tmp_path, changed()).mesh.privacy.model_dump()


@pytest.mark.parametrize(
    ("privacy", "text"),
    [
        ({"bands": 0}, "privacy.bands: 0: must be at least 1"),
        ({"bands": 1025}, "privacy.bands: 1025: must be at most 1024"),
        ({"bands": 2.5}, "privacy.bands: 2.5: must be a whole number"),
        ({"delta": None}, "privacy.delta: null: missing: mechanism gaussian-bisr needs a number"),
        ({"delta": 0}, "privacy.delta: 0: must be at least 1e-300"),
        ({"delta": 1}, "privacy.delta: 1: must be below 1"),
        ({"epsilon": None}, "privacy.epsilon: null: missing"),
        ({"epsilon": 1e-9}, "privacy.epsilon: 1e-09: must be above 1e-08"),
        ({"epsilon": 1e6}, "privacy.epsilon: 1000000: must be above 1e-08 and at most 100000"),
        (
            {"epsilon": 1e-4},
            "privacy.epsilon: 0.0001: with delta 1e-06 so much noise leaves 64 bits: must be larger",
        ),
        ({"gradient_bound": 0}, "privacy.gradient_bound: 0: must be above 0"),
        (
            {"calibration": "classic"},
            'privacy.calibration: "classic": is for mechanism gaussian, not for gaussian-bisr',
        ),
        ({"norm": "l1"}, 'privacy.norm: "l1": gaussian-bisr on the gradient clips in l2: must be l2'),
        (
            {"on": "parameters"},
            'privacy.on: "parameters": gaussian-bisr randomises gradients: must be gradient',
        ),
        (
            {"mechanism": "gaussian", "bands": 4},
            "privacy.bands: 4: is for mechanism gaussian-bisr, not for gaussian",
        ),
        ({"budget": 3}, "privacy.budget: 3: gaussian"),
    ],
)
def test_mistakes_are_named(tmp_path, privacy, text):
    with pytest.raises(MeshFileError) as caught:
        meshed(tmp_path, **privacy)
    assert text in str(caught.value)


def test_the_account_is_of_correlated_noise(tmp_path):
    budget = {"epsilon": 100, "delta": 1e-5}
    file = meshed(tmp_path, {"slots": {"by": "count", "size": 3}}, budget=budget)
    ledger, mechanism = file.resolved.node("a").ledger, made(file)
    assert isinstance(ledger.composition, BandComposition)
    assert ledger.delta == 1e-5
    assert ledger.composition.sensitivity == 3 * (2 * mechanism.grid.radius << 24)
    last = ledger.last_learning_round
    assert ledger.spent(last) <= Fraction(100) < ledger.spent(last + 1)
    assert meshed(tmp_path).resolved.node("a").ledger.delta == 1e-6


def test_the_words_say_what_is_proved_and_what_is_secret(tmp_path):
    file = meshed(tmp_path, noise="exact")
    said = dict(facts(file, None, 0.0))
    assert (
        "Each record of node a's stream is protected with epsilon = 1 (delta = 1e-06, proved for real "
        "arithmetic), for the whole stream"
    ) in said["guarantee"]
    assert "exact noise of standard deviation 6.927 on each coordinate" in said["mechanism"]
    assert "correlated over 16 rounds: over many rounds it adds up to 0.21 times" in said["mechanism"]
    assert "the last 15 draws, which are secret" in said["mechanism"]
    assert "correlated Gaussian noise (analytic) at delta = 1e-06" in said["epsilon"]
    assert "correlated over" not in dict(facts(meshed(tmp_path, bands=1), None, 0.0))["mechanism"]
    assert math.isclose(made(file).noise_scale(1), 6.927, abs_tol=1e-3)
