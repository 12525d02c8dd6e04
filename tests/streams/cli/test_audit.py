"""`mirrormesh audit mechanism`, as a user calls it; for `audit releases` see tests/kafka."""

import re

import pytest

from nodes.privacy.exact import ExactSampler
from streams.collaboration import wire
from streams.mesh import mesh as mesh_module
from tests.streams.cli.test_plan import change, facts
from tests.support.collaborations.folders import write

EASY = ("--draws", 2000, "--confidence", 0.9999)


@pytest.fixture
def exact(mesh):
    """The small mesh with exact noise."""
    change(mesh, ("noise: simulated", "noise: exact"))
    return mesh


def bound(fact):
    return float(re.match(r"epsilon is at least ([0-9.]+) ", fact)[1])


def test_a_sound_mechanism_is_not_refuted(call, exact):
    found = facts(call("audit", "mechanism", exact, *EASY))
    assert found["mechanism"].startswith("laplace on the gradient; each record's gradient is clipped to 0.5")
    assert found["nodes"] == "a, b, c"
    assert found["lattice"].startswith("holds: the same draws gave 100 pairs")
    assert 0.05 < bound(found["bound"]) < 1  # a sound one is refuted once in 10,000 calls
    assert found["bound"].endswith("of one record, at 0.9999 confidence")
    assert found["claim"] == "1: not refuted (which proves nothing)"
    assert found["draws"] == "2,000 on each of two slots that differ in one record"


def test_mechanisms_that_differ_are_audited_together_or_one_alone(call, exact):
    nodes = "nodes: {a: {}, b: {mechanism: gaussian, delta: 1e-6}, c: {mechanism: none}}"
    change(exact, ("nodes: [a, b, c]", nodes))
    outcome = call("audit", "mechanism", exact, "--draws", 200)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("mechanism: ") == outcome.out.count("at 0.95 confidence, all 2 together") == 2
    assert "at delta = 1e-06 of one record" in outcome.out
    found = facts(call("audit", "mechanism", exact, "b", *EASY))
    assert found["nodes"] == "b"
    assert "together" not in found["bound"]


class TooLittle(ExactSampler):
    """The fault: twice too little noise."""

    def laplace(self, round, values, scale):
        return super().laplace(round, values, scale / 2)

    def gaussian(self, round, values, scale):
        return super().gaussian(round, values, scale / 2)


class Floats(ExactSampler):
    """The fault: floats."""

    def laplace(self, round, values, scale):
        return super().laplace(round, values, scale) + 0.25


@pytest.mark.parametrize(
    ("sampler", "name", "said"), [(TooLittle, "claim", "1: REFUTED"), (Floats, "lattice", "BROKEN: of 100")]
)
def test_what_is_refuted_is_an_error(call, exact, monkeypatch, sampler, name, said):
    monkeypatch.setattr(mesh_module, "ExactSampler", sampler)
    outcome = call("audit", "mechanism", exact, *EASY)
    assert (outcome.code, outcome.err) == (1, "")
    assert re.search(rf"^{name}: +{said}", outcome.out, re.MULTILINE)


def test_at_a_large_dimension_there_are_fewer_draws(call, exact, monkeypatch):
    text = exact.read_text().partition("nodes:\n  a:")[0]
    exact.write_text(text.replace("dimension: 2", "dimension: 400").replace("range", "squared"))
    monkeypatch.setattr("streams.status.audit._WORK", 80_000)
    found = facts(call("audit", "mechanism", exact, "--confidence", 0.9999))
    why = "a draw takes long at this size"
    assert found["draws"] == f"200 on each of two slots that differ in one record, not 40,000: {why}"


def test_simulated_noise_is_refused_with_the_reason(call, mesh):
    outcome = call("audit", "mechanism", mesh)
    assert (outcome.code, outcome.out) == (2, "")
    assert 'mesh.privacy.noise: "simulated": a seed repeats this noise, so no epsilon' in outcome.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("zz",), "zz: not a node of the mesh: must be one of a, b, c"),
        (("--confidence", 1), "--confidence 1.0: must be above 0 and below 1"),
        (("--confidence", "nan"), "--confidence nan: must be above 0 and below 1"),
        (("--draws", 99), "greater than or equal to 100"),
    ],
)
def test_mistakes(call, exact, options, said):
    outcome = call("audit", "mechanism", exact, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_nothing_is_claimed_without_a_mechanism(call, exact):
    change(exact, ("mechanism: laplace, epsilon: 1,", "mechanism: none,"))
    outcome = call("audit", "mechanism", exact)
    assert (outcome.code, outcome.out) == (2, "")
    assert "mechanism none claims no epsilon" in outcome.err


def test_releases_need_a_broker(call, exact):
    outcome = call("audit", "releases", exact)
    assert (outcome.code, outcome.out) == (2, "")
    assert "brokers: missing: must be given to use a broker" in outcome.err


@pytest.fixture
def star(tmp_path):
    """A small collaboration with exact noise; two of its owners have the same terms."""
    path = write(tmp_path, noise="exact", sharing=2)
    path.write_text(path.read_text().replace("epsilon: 7", "epsilon: 8"))
    return path


def test_the_answers_of_a_collaboration_are_audited_for_all_queries_together(call, star):
    outcome = call("audit", "mechanism", star, *EASY)
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        outcome.out.count("of one record, for all 5 answers of an owner, at 0.9999 confidence, all 2 tog")
        == 2
    )
    found = facts(call("audit", "mechanism", star, "b", "--draws", 10_000, "--confidence", 0.9999))
    assert found["owners"] == "b"
    assert found["mechanism"].startswith("gaussian, epsilon 9, delta 1e-06 over 2 (sharing) for all answers")
    assert " at delta = 5e-07 of one record" in found["bound"]
    assert 0.5 < bound(found["bound"]) < 4.5
    assert found["claim"] == "4.5: not refuted (which proves nothing)"
    assert facts(call("audit", "mechanism", star, "c", *EASY))["owners"] == "c"


@pytest.mark.parametrize("owner", ["a", "b"])
def test_a_collaborations_fault_is_found(call, star, monkeypatch, owner):
    monkeypatch.setattr(wire, "ExactSampler", TooLittle)
    outcome = call("audit", "mechanism", star, owner, "--draws", 10_000)
    assert outcome.code == 1
    assert ": REFUTED\n" in outcome.out


def test_a_collaboration_with_seeded_noise_is_not_audited(call, tmp_path):
    path = write(tmp_path)
    refused = call("audit", "mechanism", path)
    says = 'mesh.noise: {"simulated": 3}: a seed repeats this noise, so no epsilon is claimed'
    assert refused == (2, "", f"{path}: {says}: must be exact to be audited\n")
    assert "not an owner of the collaboration" in call("audit", "mechanism", path, "zz").err
