"""The line of `watch --owner`: what nodes here could not read, as their letters tell it."""

from streams.cli import watch
from streams.records.faults import Fault, FaultCounts
from streams.runtime.process import Asked


def counts(malformed, records):
    faults = FaultCounts()
    for number in range(records):
        faults.add(Fault("amount", "not a number") if number < malformed else None)
    return faults


def test_each_node_that_could_not_read_records_is_named_the_worst_first(monkeypatch):
    answers = [{}, {"a": counts(0, 9), "b": counts(1, 500), "c": counts(3, 4)}]
    monkeypatch.setattr(watch, "unread_records", lambda file: answers.pop(0))
    line = watch.OwnerLine("the file", Asked())
    assert line.text == ""
    line.look()
    assert line.text == "Malformed records: none that a node here has told of."
    line.look()
    worst, rest = "c 3 of 4 (amount: not a number)", "b 1 of 500 (amount: not a number)"
    assert line.text == f"Malformed records: {worst}; {rest}."


def test_it_looks_until_it_is_asked_to_stop(monkeypatch):
    stopped, looks = Asked(), []

    def look(_):
        looks.append(1)
        stopped.set()
        return {}

    monkeypatch.setattr(watch, "unread_records", look)
    line = watch.OwnerLine("the file", stopped)
    line._follow()
    assert (len(looks), line.text) == (1, "Malformed records: none that a node here has told of.")
