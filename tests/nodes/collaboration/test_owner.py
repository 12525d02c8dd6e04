"""An owner answers each query once, in order, and no more than T; what else it is asked is refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.collaboration.messages import (
    CollaborationNotice,
    JournalResponse,
    OwnerStarted,
    Query,
    QueryArrived,
    QueryEvidence,
    ReadSet,
    RecordSet,
    SendResponse,
    SetRead,
)
from nodes.collaboration.owner import OwnerMachine, digest
from nodes.privacy.exact import SimulatedSampler
from nodes.protocol import Halt, Identity, Misused, Noticed
from tests.support.collaborations.star import QUERIES, D, mechanism, own_set, summed


class Counted(SimulatedSampler):
    """A sampler that counts its draws by query."""

    __slots__ = ("drawn",)

    def laplace(self, round, values, scale):
        self.drawn = [*getattr(self, "drawn", []), round]
        return super().laplace(round, values, scale)


def query(number: int, at: float = 0.5, **changes) -> Query:
    return Query("r", "l", "e" * 32, number, np.full(D, at))._replace(**changes)


class Asked:
    """An owner, and its answers to events."""

    def __init__(self, records=(), own=None, published=0) -> None:
        self.sampler = Counted(7, "a")
        self.mechanism = mechanism("a", self.sampler)
        self.machine = OwnerMachine(Identity("a", "r", "o" * 32), "l", self.mechanism)
        self.begun = self.machine.handle(OwnerStarted(own or own_set("a"), tuple(records), published))

    @property
    def drawn(self) -> list[int]:
        return getattr(self.sampler, "drawn", [])

    def ask(self, asked: Query):
        return self.machine.handle(QueryArrived(asked))

    def read(self, number: int, own=None, at: float = 0.5):
        total = summed(self.mechanism, "a", np.full(D, at))
        return self.machine.handle(SetRead(number, own or own_set("a"), total))

    def answer(self, number: int):
        self.ask(query(number))
        return self.read(number)


def test_a_query_is_read_charged_drawn_journalled_and_then_sent():
    owner = Asked()
    (reading,) = owner.ask(query(1))
    assert isinstance(reading, ReadSet)
    assert reading.query == 1
    assert owner.drawn == []
    journal, send = owner.read(1)
    assert isinstance(journal, JournalResponse)
    assert isinstance(send, SendResponse)
    record = journal.record
    assert (record.query, record.charged, record.epsilon_spent) == (1, 1, 2.0)
    assert record.asked == digest(np.full(D, 0.5))
    assert send.response.response is record.response
    assert (send.response.simulated, send.response.owner) == (True, "a")
    with pytest.raises(ValueError, match="read-only"):
        record.response[0] = 0


def test_the_same_query_again_gets_the_same_bytes_whoever_asks_and_draws_nothing():
    owner = Asked()
    first = owner.answer(1)[-1]
    for again in (query(1), query(1, instance="f" * 32)):
        notice, sent = owner.ask(again)
        assert notice == Noticed(CollaborationNotice.DUPLICATE, "l", 1)
        assert sent.response.response.tobytes() == first.response.response.tobytes()
    restarted = Asked([record.record for record in owner_records(owner)])
    assert restarted.ask(query(1))[-1].response.response.tobytes() == first.response.response.tobytes()
    assert (owner.drawn, restarted.drawn) == ([1], [])


def owner_records(owner: Asked) -> list[JournalResponse]:
    return [JournalResponse(record) for record in owner.machine._answered.values()]


def test_while_a_query_is_read_the_same_again_waits_for_it():
    owner = Asked()
    owner.ask(query(1))
    assert owner.ask(query(1)) == (Noticed(CollaborationNotice.DUPLICATE, "l", 1),)
    assert len(owner.read(1)) == 2


@pytest.mark.parametrize("restart", [False, True])
def test_another_theta_for_the_same_query_is_refused_with_evidence(restart):
    owner = Asked()
    owner.answer(1)
    if restart:
        owner = Asked([one.record for one in owner_records(owner)])
    forged = query(1, at=0.6)
    notice, evidence = owner.ask(forged)
    assert notice == Noticed(CollaborationNotice.CHANGED, "l", 1)
    assert evidence == QueryEvidence(forged, digest(np.full(D, 0.5)))
    assert owner.read(1) == ()
    assert len(owner.machine._answered) == 1


@pytest.mark.parametrize(
    ("asked", "notice"),
    [
        (query(3), CollaborationNotice.SKIPPED),
        (query(QUERIES + 1), CollaborationNotice.BEYOND),
        (query(10**6), CollaborationNotice.BEYOND),
        (query(0), CollaborationNotice.BEYOND),
    ],
)
def test_a_query_out_of_order_or_beyond_the_last_is_refused_with_evidence(asked, notice):
    owner = Asked()
    owner.answer(1)
    assert owner.ask(asked) == (Noticed(notice, "l", asked.number), QueryEvidence(asked, None))
    assert owner.drawn == [1]


@pytest.mark.parametrize("asked", [query(1, run="other"), query(1, learner="other")])
def test_a_query_of_another_run_or_learner_is_ignored(asked):
    assert Asked().ask(asked) == (Noticed(CollaborationNotice.FOREIGN, "l", 1),)


def test_a_query_that_comes_meanwhile_replaces_the_one_before_and_nothing_is_charged_for_that():
    owner = Asked()
    owner.ask(query(1))
    passed, reading = owner.ask(query(2))
    assert passed == Noticed(CollaborationNotice.PASSED, "l", 1)
    assert reading.query == 2
    assert owner.read(1) == ()  # its sum comes too late
    journal, _ = owner.read(2)
    assert (journal.record.query, journal.record.charged, owner.drawn) == (2, 1, [2])
    assert owner.ask(query(1)) == (Noticed(CollaborationNotice.PASSED, "l", 1),)


def test_a_new_learner_cannot_restart_the_count():
    owner = Asked()
    owner.answer(1)
    owner.answer(2)
    restarted = Asked([one.record for one in owner_records(owner)])
    new = {"instance": "f" * 32}
    assert isinstance(restarted.ask(query(1, at=0.9, **new))[-1], QueryEvidence)
    assert [type(one) for one in restarted.ask(query(3, **new))] == [ReadSet]
    assert restarted.read(3)[0].record.charged == 3


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            own_set("a")._replace(extent=(("bytes", 101),)),
            r"it ends at 101 \(bytes\), at 100 \(bytes\) at first",
        ),
        (own_set("a")._replace(source="{}"), "its settings differ"),
    ],
)
def test_a_changed_set_ends_the_owner_before_anything_is_drawn(changed, says):
    owner = Asked()
    owner.answer(1)
    owner.ask(query(2))
    (halt,) = owner.read(2, own=changed)
    assert isinstance(halt, Halt)
    assert halt.failed
    assert halt.reason.startswith("owner a: the set has changed (")
    assert owner.drawn == [1]
    restarted = Asked([one.record for one in owner_records(owner)], own=changed)
    (halt,) = restarted.begun
    assert re.search(says, halt.reason)
    with pytest.raises(Misused, match="halted"):
        restarted.ask(query(2))


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_another_number_of_records_than_the_public_one_is_refused_at_the_start(count):
    (halt,) = Asked(own=RecordSet("{}", (), count)).begun
    must = "must be 5, as mesh.owners.a.records says"
    assert halt == Halt(f"owner a: the set holds {count} records: {must}", failed=True)


def test_a_journal_older_than_what_was_sent_is_refused():
    owner = Asked()
    owner.answer(1)
    assert Asked([one.record for one in owner_records(owner)], published=1).begun == ()
    (halt,) = Asked(published=1).begun
    assert halt.failed
    assert "query 1 was answered, and the journal knows of 0" in halt.reason


def test_the_final_query_ends_it_in_order():
    owner = Asked()
    assert owner.ask(query(QUERIES + 1, final=True)) == (Halt("the learner is done", failed=False),)


def test_a_final_query_before_the_last_ends_it_and_what_is_being_read_is_never_drawn():
    owner = Asked()
    owner.answer(1)
    owner.ask(query(2))
    (halt,) = owner.ask(query(2, final=True))
    assert halt == Halt(f"the learner has ended the run at query 2 of {QUERIES}, and asks no more")
    assert (owner.machine.charged, owner.machine.reading) == (1, None)


def test_the_caller_must_start_it_once_and_first():
    machine = OwnerMachine(Identity("a", "r", "o" * 32), "l", mechanism("a"))
    with pytest.raises(Misused):
        machine.handle(QueryArrived(query(1)))
    machine.handle(OwnerStarted(own_set("a")))
    with pytest.raises(Misused):
        machine.handle(OwnerStarted(own_set("a")))


@given(numbers=st.lists(st.tuples(st.integers(-1, QUERIES + 2), st.sampled_from([0.5, 0.6]), st.booleans())))
def test_whatever_is_asked_no_query_is_drawn_twice_and_no_more_than_epsilon_is_spent(numbers):
    owner, sent = Asked(), {}
    for number, at, read in numbers:
        effects = list(owner.ask(query(number, at)))
        if read and owner.machine.reading is not None:
            effects += owner.read(owner.machine.reading, at=at)
        for effect in effects:
            if isinstance(effect, SendResponse):
                bytes_ = effect.response.response.tobytes()
                assert sent.setdefault(effect.response.query, bytes_) == bytes_
    assert sorted(set(owner.drawn)) == sorted(owner.drawn) == sorted(sent)
    assert owner.machine.charged == len(sent) <= QUERIES
    assert owner.machine.epsilon_spent == 2.0 * len(sent) <= 8


class Fallible:
    """An owner on a disk and a topic. It may die before any effect; each life has noise of its own."""

    def __init__(self) -> None:
        self.journal, self.topic, self.lives = [], [], 0
        self.start()

    def start(self) -> None:
        """Begin a new life, as the shell does: unsent answers first."""
        self.lives += 1
        self.mechanism = mechanism("a", SimulatedSampler(self.lives, "a"))
        self.machine = OwnerMachine(Identity("a", "r", "o" * 32), "l", self.mechanism)
        known = {one.query: one for one in self.journal}
        said = {number for number, _ in self.topic}
        self.topic += [(one.query, one.response.tobytes()) for one in self.journal if one.query not in said]
        published = max(said, default=0)
        begun = self.machine.handle(OwnerStarted(own_set("a"), tuple(known.values()), published))
        assert begun == ()

    def handle(self, event, effects: int) -> None:
        """Carry out so many effects of an event; where there are more, die, and start again."""
        made = self.machine.handle(event)
        for effect in made[:effects]:
            if isinstance(effect, JournalResponse):
                self.journal.append(effect.record)
            elif isinstance(effect, SendResponse):
                self.topic.append((effect.response.query, effect.response.response.tobytes()))
        if len(made) > effects:
            self.start()


@given(
    st.lists(
        st.tuples(
            st.integers(0, QUERIES + 1),  # asked
            st.sampled_from([0.5, 0.6]),  # theta
            st.integers(0, QUERIES),  # the pass that ends: it may be another's
            st.tuples(st.integers(0, 3), st.integers(0, 3)),  # effects before it dies
        ),
        max_size=30,
    )
)
def test_wherever_it_dies_nobody_sees_two_answers_to_a_query_nor_one_that_is_not_journalled(events):
    owner = Fallible()
    for number, at, read, (asked, answered) in events:
        owner.handle(QueryArrived(query(number, at)), asked)
        total = summed(owner.mechanism, "a", np.full(D, at))
        owner.handle(SetRead(read or number, own_set("a"), total), answered)
    journalled = {one.query: one.response.tobytes() for one in owner.journal}
    assert len(journalled) == len(owner.journal) <= QUERIES
    assert dict(owner.topic).items() <= journalled.items()
    assert len(set(owner.topic)) == len(dict(owner.topic))
    assert owner.machine.charged == len(journalled)
