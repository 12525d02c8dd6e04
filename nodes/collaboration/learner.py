"""The learner's machine: it queries the owners and steps on their answers, sans-I/O. Its state is public.

Rules
-----
* Events go in, effects come out. A refused event changes nothing (`Misused`). An owner's mistakes are noticed
  and ignored.
* Query k is sent once its record is durable. It is over once all owners have answered, or at its deadline
  with the answers received by then. The weight of an owner that answered is its public influence divided by
  the sum over all that answered, such as n_l/n. If no owner has answered, the learner waits for another
  deadline.
* Of an owner's responses to a query the first counts. A second response with other bytes is evidence, if it
  is to the current query or the one before.
* A response to an earlier query is late: it is counted, and not used.
* After m missed deadlines in a row the learner waits for an owner again 2^m queries later. Every query is
  still sent to that owner.
* Answers are summed in the order of the owners' names, so a run depends on the answers, not on their times.
* A restart sends the newest query again, with the same bytes. After query T the last theta is sent as final.
* If theta diverges, the learner sends no further query, as no owner could answer it. The record of that theta
  is not kept. The last query is sent again as final, so that all owners end too, and the learner halts.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nodes.collaboration.messages import (
    Answer,
    CollaborationNotice,
    JournalQuery,
    LearnerEffect,
    LearnerEvent,
    LearnerStarted,
    Query,
    QueryRecord,
    Response,
    ResponseArrived,
    ResponseEvidence,
    SendQuery,
)
from nodes.collaboration.steps import QueryStage, QueryStep, combined, weights
from nodes.protocol import DeadlinePassed, Halt, Identity, Misused, Noticed, StartDeadline, Stepped
from nodes.values import FloatArray


class LearnerMachine:
    """The learner. `influence`: each owner's weight up to a common factor, above 0: n_l or its precision."""

    def __init__(self, identity: Identity, step: QueryStep, influence: Mapping[str, float]) -> None:
        self.identity = identity
        self._step = step
        self._influence = dict(sorted(influence.items()))
        self._record: QueryRecord | None = None
        self._answers: dict[str, Response] = {}
        self._missed: dict[str, int] = {}  # owners that missed deadlines, and how many in a row
        self._waited_from: dict[str, int] = {}  # the query from which they are waited for again
        self._effects: list[LearnerEffect] = []
        self._halted = False
        self._handlers: dict[type[LearnerEvent], Callable[[Any], None]] = {
            LearnerStarted: self._start,
            ResponseArrived: self._receive,
            DeadlinePassed: self._give_up,
        }

    @property
    def halted(self) -> bool:
        """Whether the learner is done and accepts no more events."""
        return self._halted

    @property
    def record(self) -> QueryRecord:
        """The newest record. Raises Misused before the start."""
        if self._record is None:
            raise Misused("LearnerStarted comes first")
        return self._record

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The owners that have not answered the current query."""
        return tuple([name for name in self._influence if name not in self._answers])

    def handle(self, event: LearnerEvent) -> tuple[LearnerEffect, ...]:
        """Handle one event and return the effects to carry out, in order. Raises Misused."""
        if self._halted:
            raise Misused("the machine has halted")
        if isinstance(event, LearnerStarted) == (self._record is not None):
            raise Misused("LearnerStarted comes first, and once")
        self._effects = []
        self._handlers[type(event)](event)
        return tuple(self._effects)

    def _start(self, event: LearnerStarted) -> None:
        if event.records:
            self._record = event.records[-1]
        else:
            stage = self._step.start()
            self._keep(QueryRecord(1, _frozen(stage.parameters), _frozen(stage.average)))
        self._ask()

    def _receive(self, event: ResponseArrived) -> None:
        response, now = event.response, self.record.number
        owner, number = response.owner, response.query
        if response.run != self.identity.run or owner not in self._influence:
            self._notice(CollaborationNotice.FOREIGN, owner, number)
        elif number > now:
            self._notice(CollaborationNotice.EARLY, owner, number)
        else:
            first = self._first(owner, number)
            if first is not None:
                self._receive_again(response, first)
            elif number < now:
                self._notice(CollaborationNotice.LATE, owner, number)
                self._forgive(owner)
            else:
                self._answers[owner] = response
                self._forgive(owner)
                if not any(self._is_waited_for(name) for name in self.waiting_for):
                    self._advance()

    def _receive_again(self, response: Response, first: FloatArray) -> None:
        is_repeated = response.response.tobytes() == first.tobytes()
        self._notice(
            CollaborationNotice.DUPLICATE if is_repeated else CollaborationNotice.EVIDENCE,
            response.owner,
            response.query,
        )
        if not is_repeated:
            self._effects.append(ResponseEvidence(response, first))

    def _first(self, owner: str, number: int) -> FloatArray | None:
        """Return the owner's first response to this query or the one before, if it came in time."""
        if number == self.record.number and owner in self._answers:
            return self._answers[owner].response
        if number == self.record.number - 1:
            return next((answer.response for answer in self.record.answers if answer.owner == owner), None)
        return None

    def _give_up(self, event: DeadlinePassed) -> None:
        number = self.record.number
        if event.number != number:
            return
        if self._answers:
            self._advance()
        else:
            self._notice(CollaborationNotice.UNANSWERED, self.identity.name, number)
            self._effects.append(StartDeadline(number))

    def _advance(self) -> None:
        record, missing = self.record, self.waiting_for
        for name in missing:
            self._notice(CollaborationNotice.LEFT_OUT, name, record.number)
            if not self._is_waited_for(name):
                continue
            self._missed[name] = self._missed.get(name, 0) + 1
            self._waited_from[name] = record.number + (1 << self._missed[name])
        shares, responses = self._shares(), self._responses()
        with np.errstate(all="ignore"):  # a theta that diverges is reported below, in one line
            stage = self._step.advance(
                QueryStage(record.number, record.parameters, record.average),
                combined(np.stack(responses), shares),
            )
        if not (np.isfinite(stage.parameters).all() and np.isfinite(stage.average).all()):
            self._diverge()
            return
        answers = tuple(
            Answer(name, self._answers[name].instance, float(share), response)
            for name, share, response in zip(self._influence, shares, responses, strict=True)
            if name in self._answers
        )
        self._answers = {}
        self._keep(
            QueryRecord(stage.query, _frozen(stage.parameters), _frozen(stage.average), answers, missing)
        )
        self._effects.append(Stepped(record.number, self.record))
        self._ask()

    def _shares(self) -> FloatArray:
        influence = np.array(list(self._influence.values()), dtype=np.float64)
        return weights(influence, np.array([name in self._answers for name in self._influence]))

    def _responses(self) -> list[FloatArray]:
        no_answer = np.zeros_like(self.record.parameters)
        return [
            self._answers[name].response if name in self._answers else no_answer for name in self._influence
        ]

    def _diverge(self) -> None:
        self._halted = True
        self._effects.append(SendQuery(self._query(final=True)))
        must = "the algorithm's step or rho must be smaller, in a new run"
        self._effects.append(Halt(f"theta diverges at query {self.record.number}: {must}", failed=True))

    def _keep(self, record: QueryRecord) -> None:
        self._record = record
        self._effects.append(JournalQuery(record))

    def _ask(self) -> None:
        number = self.record.number
        final = number > self._step.queries
        self._effects.append(SendQuery(self._query(final=final)))
        if final:
            self._halted = True
            self._effects.append(Halt("all queries are answered"))
        else:
            self._effects.append(StartDeadline(number))

    def _query(self, *, final: bool) -> Query:
        identity, record = self.identity, self.record
        return Query(identity.run, identity.name, identity.instance, record.number, record.parameters, final)

    def _is_waited_for(self, owner: str) -> bool:
        return self._waited_from.get(owner, 0) <= self.record.number

    def _forgive(self, owner: str) -> None:
        self._missed.pop(owner, None)
        self._waited_from.pop(owner, None)

    def _notice(self, notice: CollaborationNotice, peer: str, number: int) -> None:
        self._effects.append(Noticed(notice, peer, number))


def _frozen(values: FloatArray) -> FloatArray:
    frozen = np.array(values)
    frozen.flags.writeable = False
    return frozen
