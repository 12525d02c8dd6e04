"""Histories of a collaboration: what must hold does, and planted bugs of its processes are found."""

import re
from itertools import chain

import numpy as np
import pytest

from nodes.collaboration import learner as learner_machine
from nodes.collaboration.owner import OwnerMachine
from nodes.collaboration.steps import by_records
from streams.cli import main
from streams.collaboration import roles
from streams.collaboration.wire import Collaboration
from streams.runtime.runner import Runner
from streams.simulation.bus import Killed, PlannedCrash
from streams.simulation.collaboration import CollaborationStage, PartyKind
from streams.simulation.search import run, search, shrunk
from tests.support.collaborations.folders import write, written

MOST = 100
"""Histories in which a planted bug is found."""


@pytest.fixture
def stage(tmp_path):
    return CollaborationStage(written(tmp_path))


def first_violation(stage):
    """The first history of `MOST` in which something does not hold."""
    outcomes = (outcome for outcome in search(stage, range(MOST)) if outcome.violation)
    return next(outcomes, None)


def test_nothing_is_violated_and_every_kind_of_fault_has_struck(stage):
    outcomes = list(search(stage, range(150)))
    assert [(outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation] == []
    lines = list(chain.from_iterable(outcome.history.lines for outcome in outcomes))
    assert {line.what for line in lines if line.who == "adversary"} >= set(PartyKind)
    ends = {line.detail for line in lines if line.what == "ends"}
    assert ends >= {"killed", "no space is left on the device"}
    assert any("lost its end" in end or "cannot be read any more" in end for end in ends)


def test_nothing_is_violated_where_answers_are_weighed_by_their_noise(tmp_path, monkeypatch):
    file, planted = (written(tmp_path, more_mesh="  weights: noise\n") for _ in range(2))
    outcomes = list(search(CollaborationStage(file), range(60)))
    assert [(outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation] == []
    monkeypatch.setattr(Collaboration, "weigh", staticmethod(by_records))
    assert "is not the paper's" in first_violation(CollaborationStage(planted)).violation


@pytest.mark.slow
def test_nothing_is_violated_in_a_thousand_histories_with_a_death_before_every_kind_of_effect(
    stage, monkeypatch
):
    effect = PlannedCrash.effect
    handled, died_before = set(), set()

    def watched(self, following=None):
        handled.add(type(following))
        try:
            effect(self, following)
        except Killed:
            died_before.add(type(following))
            raise

    monkeypatch.setattr(PlannedCrash, "effect", watched)
    outcomes = list(search(stage, range(1000)))
    assert [(outcome.seed, outcome.violation) for outcome in outcomes if outcome.violation] == []
    assert handled - died_before == set()
    assert len(handled) >= 8


def test_a_seed_is_one_history(stage, tmp_path):
    again = CollaborationStage(written(tmp_path))
    for seed in (3, 4):
        assert run(stage, seed).history.digest() == run(again, seed).history.digest()


def test_the_command_says_how_many_histories_held_and_how_to_run_one_again(tmp_path, monkeypatch, capsys):
    path = write(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(path), "--histories", "20"])
    assert ended.value.code == 0
    assert "no violation" in capsys.readouterr().out
    equal_weights(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(path), "--histories", "20"])
    assert ended.value.code == 1
    assert f"Again: mirrormesh simulate {path} --seed" in capsys.readouterr().out.replace("\n", " ")


def sent_before_durable(monkeypatch):
    def keep(self, keep, effect):
        if self._world.commits is None:
            keep(effect)
        else:
            self._world.commits(lambda: keep(effect))

    monkeypatch.setattr(Runner, "_keep", keep)


def failed_append_is_ignored(monkeypatch):
    kept = Runner._kept
    monkeypatch.setattr(Runner, "_kept", lambda self, effect, began, _: kept(self, effect, began, None))


def journal_without_its_last_answer(monkeypatch):
    start = roles.owner_start

    def older(journal, name, wire, bus):
        begun = start(journal, name, wire, bus)
        return begun._replace(records=begun.records[:-1], published=0, offset=0)

    monkeypatch.setattr("streams.simulation.collaboration.owner_start", older)


def equal_weights(monkeypatch):
    def weights(records, answered):
        return answered / max(1, answered.sum())

    monkeypatch.setattr(learner_machine, "weights", weights)


def no_answer_is_sent_again(monkeypatch):
    start = roles.owner_start

    def without_unsent(journal, name, wire, bus):
        return start(journal, name, wire, bus)._replace(unsent=())

    monkeypatch.setattr("streams.simulation.collaboration.owner_start", without_unsent)
    monkeypatch.setattr(OwnerMachine, "_receive_again", lambda self, query: None)


def the_end_is_not_heard(monkeypatch):
    halt = OwnerMachine._halt
    monkeypatch.setattr(
        OwnerMachine, "_halt", lambda self, reason, *, failed=True: failed and halt(self, reason)
    )


def average_of_the_new_theta(monkeypatch):
    class Shifted:
        def __init__(self, step):
            self._step = step

        def __getattr__(self, name):
            return getattr(self._step, name)

        def advance(self, stage, gradient):
            moved = self._step.advance(stage, gradient)
            return moved._replace(average=np.asarray(moved.average + 1e-6))

    begin = learner_machine.LearnerMachine.__init__
    monkeypatch.setattr(
        learner_machine.LearnerMachine,
        "__init__",
        lambda self, identity, step, records: begin(self, identity, Shifted(step), records),
    )


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (sent_before_durable, "is not in its journal|is on its topic, and not in the learner's journal"),
        (failed_append_is_ignored, "is not in its journal|and not in the learner's journal"),
        (journal_without_its_last_answer, "two values for query|counts . charged queries"),
        (equal_weights, "theta after query . is not the paper's"),
        (no_answer_is_sent_again, "it does not go on"),
        (the_end_is_not_heard, "it does not go on"),
        (average_of_the_new_theta, "average after query . is not the paper's"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_planted_bug_is_found_and_shrunk(stage, monkeypatch, plant, words):
    plant(monkeypatch)
    failed = first_violation(stage)
    assert failed is not None
    smaller = shrunk(stage, failed)
    assert len(smaller.faults) <= min(4, len(failed.faults))
    monkeypatch.undo()
    assert run(stage, smaller.seed, smaller.keep).violation is None
    assert re.search(words, failed.violation), failed.violation
