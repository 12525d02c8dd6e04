"""An owner's machine: it answers the learner's queries, sans-I/O.

Rules
-----
* Events go in, effects come out. A refused event changes nothing (`Misused`: the caller's mistake). A
  learner's mistakes are noticed and refused; nothing is drawn for them.
* Query k is answered once. Charge, sum and draw are one transition, which ends with one `JournalResponse`.
  The response is sent only after that. A repeated query, from whichever learner, gets the same bytes.
* Queries are answered in order: k follows k - 1. Another theta_k for a k that was seen, a k that was skipped,
  and a k beyond T are refused, with evidence.
* A query that arrives while the set is read for the query before replaces that one, as the learner no longer
  waits for it. The replaced query is not charged, and is not answered any more.
* The count of charged queries continues from the owner's own journal. A new learner, or a new journal of the
  same learner, cannot restart the count. So no more than T answers are drawn, and no more than
  epsilon_l/kappa is spent.
* A final query ends the machine, even during a pass over the set: nothing is drawn any more.
* The set is fixed by the first answer. A different set ends the machine before anything is drawn.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from nodes.checks import as_text
from nodes.collaboration.messages import (
    CollaborationNotice,
    JournalResponse,
    OwnerEffect,
    OwnerEvent,
    OwnerStarted,
    Query,
    QueryArrived,
    QueryEvidence,
    ReadSet,
    RecordSet,
    Response,
    ResponseRecord,
    SendResponse,
    SetRead,
)
from nodes.privacy.query import QueryMechanism
from nodes.protocol import Halt, Identity, Misused, Noticed
from nodes.values import FloatArray

# The guarantee that an owner gives to the owner of a record in its set: one value, and its sentence.


@dataclass(frozen=True, slots=True)
class AnswerGuarantee:
    """The guarantee of all answers together. `nodes.privacy.query` has the proof.

    Neighbours differ in one record, which is replaced. `epsilon` and `delta` hold for a record that is in up
    to `sharing` owners' sets, at the largest epsilon and delta of these owners.
    """

    adjacency: ClassVar[Literal["event"]] = "event"

    mechanism: str
    epsilon: Fraction
    delta: float
    queries: int
    records: int
    sharing: int
    simulated: bool

    @classmethod
    def of(cls, made: QueryMechanism) -> "AnswerGuarantee":
        """Return the guarantee of an owner's mechanism."""
        return cls(
            made.name, made.epsilon, made.delta, made.queries, made.records, made.sharing, made.simulated
        )

    @property
    def protects(self) -> bool:
        """Whether anything is protected."""
        return not self.simulated

    def sentence(self, owner: str) -> str:
        """Return the guarantee of the owner in words, or that there is none."""
        if self.simulated:
            return (
                f"Nothing in owner {owner}'s set is protected: the noise of mechanism {self.mechanism} is "
                f"simulated (epsilon = {as_text(self.epsilon)} in size only); whoever has the seed can "
                f"subtract it."
            )
        strength = "pure" if self.delta == 0 else f"delta = {self.delta!r}"
        return (
            f"Each record of owner {owner}'s set is protected with epsilon = {as_text(self.epsilon)} "
            f"({strength}), for all {self.queries:,} answers together, against everyone on the mesh broker, "
            f"the learner and all other owners; that the set holds {self.records:,} records is public: one "
            f"is replaced, none added or removed; {self._in_sets()}; a fact in k records is protected at "
            f"k epsilon{self._group_delta()}."
        )

    def _in_sets(self) -> str:
        if self.sharing == 1:
            return "it holds if each record is in one owner's set alone, which sharing says and nobody checks"
        return (
            f"it holds if each record is in at most {self.sharing} owners' sets, which sharing says and "
            f"nobody checks, and for one in several with the largest of their "
            f"epsilons{' and deltas' if self.delta else ''}"
        )

    def _group_delta(self) -> str:
        return "" if self.delta == 0 else ", delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large"


# The machine.


def digest(parameters: FloatArray) -> bytes:
    """Return 16 bytes of the SHA-256 of theta (d,): what a journal keeps of a query."""
    return hashlib.sha256(parameters.astype("<f8").tobytes()).digest()[:16]


class OwnerMachine:
    """The machine of one owner. `learner` is the name of the learner whose queries it answers."""

    def __init__(self, identity: Identity, learner: str, mechanism: QueryMechanism) -> None:
        self.identity = identity
        self._learner = learner
        self._mechanism = mechanism
        self._set: RecordSet | None = None
        self._answered: dict[int, ResponseRecord] = {}
        self._asked: dict[int, bytes] = {}  # the digest of every query seen
        self._reading: Query | None = None
        self._effects: list[OwnerEffect] = []
        self._halted = False
        self._handlers: dict[type[OwnerEvent], Callable[[Any], None]] = {
            OwnerStarted: self._start,
            QueryArrived: self._receive,
            SetRead: self._answer,
        }

    @property
    def halted(self) -> bool:
        """Whether the owner is done and accepts no more events."""
        return self._halted

    @property
    def charged(self) -> int:
        """The queries charged so far."""
        return len(self._answered)

    @property
    def epsilon_spent(self) -> float:
        """The epsilon that the charged queries have spent, rounded up."""
        return self._mechanism.spent(self.charged)

    @property
    def seen(self) -> int:
        """The largest query accepted (0: none)."""
        return max(self._asked, default=0)

    @property
    def reading(self) -> int | None:
        """The query whose pass is under way, if any."""
        return None if self._reading is None else self._reading.number

    def handle(self, event: OwnerEvent) -> tuple[OwnerEffect, ...]:
        """Handle one event and return the effects to carry out, in order. Raises Misused."""
        if self._halted:
            raise Misused("the machine has halted")
        if isinstance(event, OwnerStarted) == (self._set is not None):
            raise Misused("OwnerStarted comes first, and once")
        self._effects = []
        self._handlers[type(event)](event)
        return tuple(self._effects)

    def _start(self, event: OwnerStarted) -> None:
        self._set = event.set
        self._answered = {record.query: record for record in event.records}
        self._asked = {record.query: record.asked for record in event.records}
        due, last = self._mechanism.records, max(self._answered, default=0)
        if event.set.records != due:
            text = f"owner {self.identity.name}: the set holds {event.set.records:,} records"
            self._halt(f"{text}: must be {due:,}, as mesh.owners.{self.identity.name}.records says")
        elif event.records and event.records[0].set != event.set:
            self._halt(self._changed(event.records[0].set, event.set))
        elif event.published > last:
            self._halt(
                f"owner {self.identity.name}: query {event.published} was answered, and the journal knows of "
                f"{last}: it must be the newest one, or the run a new one"
            )

    def _receive(self, event: QueryArrived) -> None:
        query, number = event.query, event.query.number
        if (query.run, query.learner) != (self.identity.run, self._learner):
            self._notice(CollaborationNotice.FOREIGN, number)
        elif query.final:
            self._halt(self._over(number), failed=False)
        elif number in self._asked:
            self._receive_again(query)
        elif number < 1 or number > self._mechanism.queries:
            self._refuse(CollaborationNotice.BEYOND, query)
        elif number <= self.seen:
            self._notice(CollaborationNotice.PASSED, number)
        elif number > self.seen + 1:
            self._refuse(CollaborationNotice.SKIPPED, query)
        else:
            if self._reading is not None:
                self._notice(CollaborationNotice.PASSED, self._reading.number)
            self._asked[number] = digest(query.parameters)
            self._reading = query
            self._effects.append(ReadSet(number, query.parameters))

    def _over(self, number: int) -> str:
        queries = self._mechanism.queries
        early = f"the learner has ended the run at query {number:,} of {queries:,}, and asks no more"
        return "the learner is done" if number > queries else early

    def _receive_again(self, query: Query) -> None:
        if self._asked[query.number] != digest(query.parameters):
            self._refuse(CollaborationNotice.CHANGED, query)
            return
        record = self._answered.get(query.number)
        under_way = record is not None or self.reading == query.number
        self._notice(CollaborationNotice.DUPLICATE if under_way else CollaborationNotice.PASSED, query.number)
        if record is not None:
            self._effects.append(SendResponse(self._message(record)))

    def _answer(self, event: SetRead) -> None:
        reading = self._reading
        if reading is None or event.query != reading.number:
            return  # the sum of a query that another has replaced is never drawn and never charged
        if self._set is None or event.set != self._set:
            self._halt(self._changed(self._set, event.set))
            return
        charged = self.charged + 1
        record = ResponseRecord(
            query=reading.number,
            asked=self._asked[reading.number],
            response=_frozen(self._mechanism.answer(reading.number, event.total)),
            charged=charged,
            epsilon_spent=self._mechanism.spent(charged),
            set=self._set,
        )
        self._reading = None
        self._answered[record.query] = record
        self._effects += (JournalResponse(record), SendResponse(self._message(record)))

    def _message(self, record: ResponseRecord) -> Response:
        identity = self.identity
        simulated = self._mechanism.simulated
        return Response(
            identity.run, identity.name, identity.instance, record.query, simulated, record.response
        )

    def _refuse(self, notice: CollaborationNotice, query: Query) -> None:
        self._notice(notice, query.number)
        self._effects.append(QueryEvidence(query, self._asked.get(query.number)))

    def _notice(self, notice: CollaborationNotice, number: int) -> None:
        self._effects.append(Noticed(notice, self._learner, number))

    def _changed(self, first: RecordSet | None, now: RecordSet) -> str:
        """Return how the set differs from the fixed set, by counts and settings, never by its content."""
        if first is None or first.source != now.source:
            differs = "its settings differ"
        elif first.records != now.records:
            differs = f"{now.records:,} records, {first.records:,} at first"
        else:
            differs = f"it ends at {_ends(now)}, at {_ends(first)} at first"
        name = self.identity.name
        must = "must be that of the first answer, or the run a new one"
        return f"owner {name}: the set has changed ({differs}): {must}"

    def _halt(self, reason: str, *, failed: bool = True) -> None:
        self._halted, self._reading = True, None
        self._effects.append(Halt(reason, failed))


def _ends(found: RecordSet) -> str:
    return ", ".join(f"{number:,} ({name})" for name, number in found.extent)


def _frozen(response: FloatArray) -> FloatArray:
    response.flags.writeable = False
    return response
