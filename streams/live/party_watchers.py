"""Observes a collaboration's learner, or an owner, for its log and its metrics."""

import logging

from nodes.collaboration.events import Notice, SetRead
from nodes.collaboration.messages import QueryRecord, ResponseRecord
from nodes.protocol import Noticed
from streams.codec import Refused
from streams.metrics.collaboration import LearnerMetrics, OwnerMetrics
from streams.runtime.floods import Summed

_LINES = {
    Notice.CHANGED: (logging.ERROR, "%s has asked query %d again, with another theta: it gets no answer"),
    Notice.SKIPPED: (logging.WARNING, "%s has skipped a query before query %d: it gets no answer"),
    Notice.BEYOND: (logging.WARNING, "%s has asked query %d, beyond the last: it gets no answer"),
    Notice.PASSED: (logging.WARNING, "%s went on without an answer of ours before query %d"),
    Notice.EVIDENCE: (logging.ERROR, "%s has sent two answers to query %d: the first counts"),
    Notice.LEFT_OUT: (logging.WARNING, "%s has not answered query %d in time: it is left out of it"),
    Notice.UNANSWERED: (logging.WARNING, "%s: nobody has answered query %d in time: waiting on"),
}


def _say(log: logging.Logger, summed: Summed, noticed: Noticed[Notice]) -> None:
    level, text = _LINES.get(noticed.notice, (logging.DEBUG, f"{noticed.notice}: %s, query %d"))
    if log.isEnabledFor(level):
        summed.say(level, (noticed.notice, noticed.peer), text % (noticed.peer, noticed.number))


class LearnerLog:
    """Passes everything on; an owner that stays silent is logged once, until it is heard again."""

    def __init__(self, log: logging.Logger, metrics: LearnerMetrics) -> None:
        self._log, self._metrics, self._summed = log, metrics, Summed(log)
        self._silent: set[str] = set()

    def stepped(self, record: QueryRecord) -> None:
        """Note that a query is over."""
        self._metrics.stepped(record)
        self._summed.catch_up()
        for owner in [one.owner for one in record.answers if one.owner in self._silent]:
            self._silent.discard(owner)
            self._log.info("%s answers again", owner)
        answered, missing = len(record.answers), len(record.missing)
        self._log.debug("query %d: %d answers, %d missing", record.number - 1, answered, missing)

    def noticed(self, noticed: Noticed[Notice]) -> None:
        """Take a notice of the machine."""
        self._metrics.noticed(noticed)
        if noticed.notice is Notice.LEFT_OUT:
            if noticed.peer in self._silent:
                return
            self._silent.add(noticed.peer)
        _say(self._log, self._summed, noticed)

    def refused(self, owner: str, refused: Refused) -> None:
        """Note that an owner's record was refused. Its bytes are in the dead letters."""
        self._metrics.refused(refused.reason)
        line = f"a record of {owner} was refused: {refused.reason.value}"
        self._summed.say(logging.WARNING, (owner, refused.reason), line)


class OwnerLog:
    """Passes everything on."""

    def __init__(self, log: logging.Logger, metrics: OwnerMetrics) -> None:
        self._log, self._metrics, self._summed = log, metrics, Summed(log)

    def answered(self, record: ResponseRecord) -> None:
        """Note that an answer is durable."""
        self._metrics.answered(record)
        self._summed.catch_up()
        self._log.debug("query %d is answered", record.query)

    def read(self, seconds: float, read: SetRead) -> None:
        """Take how long a pass took. What it found is private."""
        del read
        self._metrics.read(seconds)

    def noticed(self, noticed: Noticed[Notice]) -> None:
        """Take a notice of the machine."""
        self._metrics.noticed(noticed)
        _say(self._log, self._summed, noticed)

    def refused(self, refused: Refused) -> None:
        """Note that a query was refused. Its bytes are in the dead letters."""
        self._metrics.refused(refused.reason)
        line = f"a query was refused: {refused.reason.value}"
        self._summed.say(logging.WARNING, refused.reason, line)
