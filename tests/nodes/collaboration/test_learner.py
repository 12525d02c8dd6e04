"""A learner steps on what came in time, and once only; what comes late, twice or forged changes nothing."""

import numpy as np
import pytest

from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import (
    CollaborationNotice,
    JournalQuery,
    LearnerStarted,
    Query,
    Response,
    ResponseArrived,
    ResponseEvidence,
    SendQuery,
)
from nodes.collaboration.steps import Averaged, StronglyConvex
from nodes.geometry.constraints import L2Ball
from nodes.protocol import DeadlinePassed, Halt, Identity, Misused, Noticed, StartDeadline, Stepped

SIZES = {"a": 1, "b": 3, "c": 4}
STEP = Averaged(L2Ball(2, 5.0), 8, 1.0)


def made(records=(), step=STEP) -> tuple[LearnerMachine, tuple]:
    machine = LearnerMachine(Identity("l", "r", "e" * 32), step, SIZES)
    return machine, machine.handle(LearnerStarted(tuple(records)))


def response(owner: str, query: int, value: float = 1.0, **changes) -> ResponseArrived:
    sent = Response("r", owner, "o" * 32, query, False, np.full(2, value))
    return ResponseArrived(sent._replace(**changes))


def answered(machine: LearnerMachine, query: int, owners: str = "abc") -> tuple:
    effects: tuple = ()
    for owner in owners:
        effects += machine.handle(response(owner, query))
    return effects


def test_it_begins_with_a_record_a_query_and_a_deadline():
    _, (journal, send, deadline) = made()
    assert isinstance(journal, JournalQuery)
    assert (journal.record.number, journal.record.answers) == (1, ())
    assert isinstance(send, SendQuery)
    assert send.query.parameters is journal.record.parameters
    assert (send.query.number, send.query.final) == (1, False)
    assert deadline == StartDeadline(1)


def test_it_steps_once_all_have_answered_and_journals_before_it_asks_again():
    machine, _ = made()
    assert answered(machine, 1, "ba") == ()
    journal, stepped, send, deadline = machine.handle(response("c", 1))
    assert [type(one) for one in (journal, stepped, send, deadline)] == [
        JournalQuery,
        Stepped,
        SendQuery,
        StartDeadline,
    ]
    record = journal.record
    assert [(one.owner, one.weight) for one in record.answers] == [("a", 1 / 8), ("b", 3 / 8), ("c", 4 / 8)]
    assert record.parameters.tolist() == [-1.0, -1.0]
    assert record.missing == ()
    with pytest.raises(ValueError, match="read-only"):
        record.parameters[0] = 0


def test_who_does_not_answer_in_time_is_left_out_of_that_query_and_reported():
    machine, _ = made()
    answered(machine, 1, "ab")
    notice, journal, *_ = machine.handle(DeadlinePassed(1))
    assert notice == Noticed(CollaborationNotice.LEFT_OUT, "c", 1)
    assert journal.record.missing == ("c",)
    assert [(one.owner, one.weight) for one in journal.record.answers] == [("a", 1 / 4), ("b", 3 / 4)]
    assert journal.record.parameters.tolist() == [-1.0, -1.0]  # the weights are n_l/n of those two


def test_where_nobody_has_answered_it_waits_on():
    machine, _ = made()
    assert machine.handle(DeadlinePassed(1)) == (
        Noticed(CollaborationNotice.UNANSWERED, "l", 1),
        StartDeadline(1),
    )
    assert machine.record.number == 1


def test_a_deadline_of_an_earlier_query_does_nothing():
    machine, _ = made()
    answered(machine, 1)
    assert machine.handle(DeadlinePassed(1)) == ()


def test_an_owner_left_out_again_and_again_is_waited_for_less_and_less():
    machine, _ = made()
    waits = []
    while not machine.halted:
        number = machine.record.number
        answered(machine, number, "ab")
        if machine.record.number == number:
            waits.append(number)
            machine.handle(DeadlinePassed(number))
    assert waits == [1, 3, 7]


def test_an_answer_in_time_or_late_ends_that():
    machine, _ = made()
    answered(machine, 1, "ab")
    machine.handle(DeadlinePassed(1))
    assert machine.handle(response("c", 1)) == (Noticed(CollaborationNotice.LATE, "c", 1),)
    answered(machine, 2, "ab")
    assert machine.waiting_for == ("c",)
    assert machine.record.number == 2
    answered(machine, 2, "c")
    assert machine.record.number == 3
    assert [one.owner for one in machine.record.answers] == ["a", "b", "c"]


@pytest.mark.parametrize("after", [0, 1])
def test_the_same_response_again_is_a_duplicate_and_another_is_evidence(after):
    machine, _ = made()
    answered(machine, 1, "abc" if after else "a")
    assert machine.handle(response("a", 1)) == (Noticed(CollaborationNotice.DUPLICATE, "a", 1),)
    forged = response("a", 1, value=2.0)
    notice, evidence = machine.handle(forged)
    assert notice == Noticed(CollaborationNotice.EVIDENCE, "a", 1)
    assert isinstance(evidence, ResponseEvidence)
    assert evidence.first.tolist() == [1.0, 1.0]
    if not after:
        answered(machine, 1, "bc")
    assert machine.record.answers[0].response.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arrived", "notice"),
    [
        (response("x", 1), CollaborationNotice.FOREIGN),
        (response("a", 1, run="other"), CollaborationNotice.FOREIGN),
        (response("a", 2), CollaborationNotice.EARLY),
    ],
)
def test_what_is_not_of_the_run_or_of_no_query_yet_is_ignored(arrived, notice):
    machine, _ = made()
    assert machine.handle(arrived) == (Noticed(notice, arrived.response.owner, arrived.response.query),)
    assert machine.waiting_for == ("a", "b", "c")


def test_a_restart_asks_the_newest_query_again_with_the_same_bytes():
    machine, _ = made()
    _, _, asked, _ = answered(machine, 1)
    restarted, (send, deadline) = made([machine.record])
    assert send.query.parameters.tobytes() == asked.query.parameters.tobytes()
    assert deadline == StartDeadline(2)
    answered(machine, 2)
    answered(restarted, 2)
    assert restarted.record.parameters.tobytes() == machine.record.parameters.tobytes()
    assert restarted.record.average.tobytes() == machine.record.average.tobytes()


def test_after_the_last_query_the_result_is_sent_as_final():
    machine, _ = made(step=StronglyConvex(2, 2, 1.0))
    answered(machine, 1)
    *_, send, halt = answered(machine, 2)
    assert (send.query.number, send.query.final) == (3, True)
    assert halt == Halt("all queries are answered")
    assert machine.record.average.tolist() == machine.record.parameters.tolist()
    again, effects = made([machine.record], StronglyConvex(2, 2, 1.0))
    assert effects == (SendQuery(send.query), halt)
    with pytest.raises(Misused, match="halted"):
        again.handle(DeadlinePassed(3))


@pytest.mark.parametrize(
    "step", [StronglyConvex(2, 4, 1e308), Averaged(L2Ball(2, 5.0), 4, 1e308)], ids=("last", "averaged")
)
def test_where_theta_diverges_it_halts_with_a_line_and_tells_the_owners(step):
    machine, _ = made(step=step)
    before = machine.record
    for owner in "ab":
        machine.handle(response(owner, 1, value=1e9))
    effects = machine.handle(response("c", 1, value=1e9))
    must = "the algorithm's step or rho must be smaller, in a new run"
    asked = Query("r", "l", "e" * 32, 1, before.parameters, final=True)
    assert effects == (SendQuery(asked), Halt(f"theta diverges at query 1: {must}", failed=True))
    assert machine.halted
    assert machine.record is before
