"""`mirrormesh audit person`: three persons with a unit, two without; refusals are one line."""

import re

import pytest

from tests.streams.mesh.test_unit import written

UNIT = "column: who, records: 2, apart: 10"


@pytest.fixture
def person(call, tmp_path):
    def audit(*options, unit=UNIT, **changes):
        return call("audit", "person", written(tmp_path, unit, **changes), *options)

    return audit


def test_with_a_unit_and_without_one(person):
    outcome = person("--runs", "100", "--confidence", "0.999999999")  # no sound claim is refuted by chance
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    assert "whom the unit who bounds to 2 rounds, 10 apart" in text
    assert text.count("claim: 1, stated: not refuted") == 2
    assert "claim: 20, what follows: not refuted" in text
    assert "This is a demonstration: it cannot see that a person is in one round too many" in text
    bare = person("--runs", "100", "--confidence", "0.999999999", none=(f", unit: {{{UNIT}}}", ""))
    assert bare.code == 0
    assert bare.out.count("person:") == 2
    assert "No unit is named (mesh.privacy.unit)" in " ".join(bare.out.split())


def test_a_person_has_no_more_records_than_there_are_rounds(call, tmp_path):
    path = tmp_path / "mesh.yaml"
    assert call("init", path).code == 0
    text = " ".join(call("audit", "person", path, "--runs", "100").out.split())
    assert "person: a person with 1 record, one a round, and no unit" in text
    claims = re.findall(r"claim: (\S+)", text)
    assert len(claims) == 2
    assert claims[0] == claims[1]  # that of one record


def test_a_person_with_100_records_and_no_unit_is_at_the_ceiling(person):
    text = " ".join(person("b", rounds="100", unit="column: who, records: 10, apart: 10").out.split())
    assert float(text.split("epsilon is at least ")[1].split(" ")[0]) > 5  # certain, but for 1 in 10^20


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"noise": ("gradient_bound: 1", "gradient_bound: 1, noise: simulated")}, "privacy.noise"),
        (
            {"epsilon": ("epsilon: 1", "epsilon: {total: 40, rounds: 20, schedule: growing}")},
            "mesh.privacy.epsilon: a schedule gives a person another epsilon in each round",
        ),
    ],
)
def test_what_cannot_be_audited_is_one_line(person, changes, line):
    outcome = person(**changes)
    assert outcome.code == 2
    assert line in outcome.err
    assert outcome.err.count("\n") == 1


def test_wrong_options_are_one_line(person):
    assert "--confidence 2.0: must be above 0 and below 1" in person("--confidence", "2").err
    assert "x" in person("x").err
