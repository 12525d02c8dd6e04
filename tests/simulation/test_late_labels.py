"""Histories of a mesh whose labels come later: which one counts for which record, whatever goes wrong."""

import json
import math

import numpy as np
import pytest

from streams.live.data.labels import LaterLabels
from streams.records import later_labels
from streams.records.later_labels import LabelMessages, LabelTable
from streams.simulation.labels import ProcessLabels
from streams.simulation.search import MeshStage, search
from tests.support.meshes.files import changed, loaded

RECORDS, START, PERIOD = 400, 1_000.0, 10.0
SLOTS = {
    "count": {"by": "count", "size": 2},
    "time": {"by": "time", "start": START, "period": PERIOD, "size": 2, "grace": 3.0},
}
LABELS = {
    "topic": "chargebacks",
    "join": "id",
    "after": "45d",
    "value": {"column": "outcome"},
    "otherwise": "legitimate",
}
WORDS = {"positive": "fraud", "negative": ["legitimate", "unclear"]}
MOST = 600


def stage(folder, by="count", **labels):
    """The histories of four banks; two payments in three share their key with another one."""
    tree = changed(slots=SLOTS[by], loss="hinge", dimension=1, rounds=24, horizon=4, nodes=[*"abcd"])
    tree["mesh"]["slots"].pop("timeout", None)
    tree["nodes"] = {}
    for name in "abcd":
        lines = [
            json.dumps({"amount": k % 7, "id": k - k % 3 // 2, "at": START + k * PERIOD / 3})
            for k in range(RECORDS)
        ]
        lines[5] = json.dumps({"amount": 1, "at": START + 5 * PERIOD / 3})  # no key
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        schema = {"features": {"amount": "number"}, "label": {"column": "outcome"} | WORDS}
        if by == "time":
            schema["timestamp"] = "at"
        source = {"kind": "json-lines", "path": f"{name}.jsonl", "schema": schema}
        tree["nodes"][name] = {"source": source | {"labels": LABELS | labels}}
    return MeshStage(loaded(folder, tree))


def first_violation(histories, most):
    outcomes = search(histories, range(most))
    return next((outcome for outcome in outcomes if outcome.violation is not None), None)


@pytest.mark.parametrize("by", SLOTS)
@pytest.mark.parametrize("value", [{"column": "outcome"}, {"constant": "fraud"}], ids=str)
def test_each_record_has_the_label_that_counts_whatever_goes_wrong(tmp_path, by, value):
    failed = first_violation(stage(tmp_path, by, value=value), 6)
    assert failed is None, f"seed {failed.seed}: {failed.violation}"


@pytest.mark.slow
@pytest.mark.parametrize("by", SLOTS)
def test_many_histories_hold(tmp_path, by):
    failed = first_violation(stage(tmp_path, by), MOST)
    assert failed is None, f"seed {failed.seed}: {failed.violation}"


def test_histories_get_where_labels_go_wrong(tmp_path, monkeypatch):
    """Labels of all kinds are read, slots wait, and a process that begins again reads from earlier on."""
    filled, away, begun = [], [], []
    fill, begin = ProcessLabels.fill, LaterLabels._begin

    def filling(self, slot, observations):
        labels = fill(self, slot, observations)
        (away if labels is None else filled).append(slot.round)
        return labels

    def beginning(self, consumer, since):
        begun.append(self._since < math.inf)
        begin(self, consumer, since)

    monkeypatch.setattr(ProcessLabels, "fill", filling)
    monkeypatch.setattr(LaterLabels, "_begin", beginning)
    histories = stage(tmp_path)
    assert first_violation(histories, 12) is None
    assert filled
    assert away
    assert any(begun)  # again, from earlier on
    facts = [fact for seed in range(9) for log in logs_of(histories, seed) for fact in log]
    assert {fact.number for fact in facts} == {1.0, -1.0, None}


def logs_of(histories, seed):
    labels = histories.scene(seed).labels.values()
    return [log for drawn in labels for log in drawn.facts.log.values()]


# ------------------------------------------------------------------------------------------ planted bugs


def used_up_by_one_record(patch):
    find = LabelTable.find

    def used(self, wanted):
        labels = find(self, wanted)
        for part in self._partitions.values():
            for level in (part.main, part.recent):
                level.drop(level.used)
        return labels

    patch.setattr(LabelTable, "find", used)


def oldest_in_place_of_the_newest(patch):
    def oldest(self, key, first, last):
        place = np.searchsorted(self.hashes, key)
        times = self.times[place : np.searchsorted(self.hashes, key, side="right")]
        within = np.flatnonzero((first <= times) & (times <= last))
        return (int(times[within[0]]), float(self.labels[place + within[0]])) if within.size else None

    patch.setattr(later_labels._Sorted, "newest", oldest)


def later_than_the_record_was_due(patch):
    due = LaterLabels._due
    patch.setattr(LaterLabels, "_due", lambda self, moment: due(self, moment) + 60_000)


def as_old_as_there_are(patch):
    find = LabelTable.find
    patch.setattr(
        LabelTable, "find", lambda self, wanted: find(self, [one._replace(first=0) for one in wanted])
    )


def lost_at_a_restart(patch):
    """Each process reads what comes from its start on, as if it went on where another had ended."""
    begin = LaterLabels._begin

    def at_the_end(self, consumer, since):
        del since
        begin(self, consumer, self.log.now)
        self._since = -math.inf

    patch.setattr(LaterLabels, "_begin", at_the_end)


def never_read_again_from_earlier_on(patch):
    """A process that is behind has but the labels that a process needs which is on time."""
    begin = LaterLabels._begin

    def once(self, consumer, since):
        if self._since == math.inf:
            begin(self, consumer, since)
        self._since = -math.inf

    patch.setattr(LaterLabels, "_begin", once)


def withdrawals_ignored(patch):
    read = LabelMessages.__call__
    patch.setattr(
        LabelMessages, "__call__", lambda self, value, key: read(self, value, key) if value else None
    )


def forgotten_too_early(patch):
    forget = LabelTable.forget
    patch.setattr(LabelTable, "forget", lambda self, time, since: forget(self, time + 200, since))


def read_before_the_slot_is_due(patch):
    patch.setattr(ProcessLabels, "due", lambda self, slot: 0.0)


def closed_empty_while_the_labels_are_away(patch):
    patch.setattr(ProcessLabels, "waits", False)


BUGS = {
    used_up_by_one_record: "by label",
    oldest_in_place_of_the_newest: "by label",
    later_than_the_record_was_due: "by label",
    as_old_as_there_are: "by label",
    lost_at_a_restart: "by label",
    never_read_again_from_earlier_on: "by label",
    withdrawals_ignored: "by label",
    forgotten_too_early: "by label",
    read_before_the_slot_is_due: "before its records are due",
    closed_empty_while_the_labels_are_away: "it waits for labels",
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, tmp_path, monkeypatch):
    histories = stage(tmp_path)
    bug(monkeypatch)
    failed = first_violation(histories, MOST)
    assert failed is not None, f"not found in {MOST} histories"
    assert BUGS[bug] in failed.violation, f"seed {failed.seed}: {failed.violation}"
