"""Observes a node for its log, its metrics and its party's applications."""

import logging

from nodes.machine.events import BeforeStep, Decided, Notice, Report
from nodes.protocol import Noticed
from streams.codec import Refused
from streams.live.outputs import Decisions, Predictions
from streams.metrics.node_metrics import NodeMetrics
from streams.runtime.floods import Summed
from streams.runtime.process import lacking

_OWN = {Notice.GIVEN_UP, Notice.JOINING, Notice.LISTENED}
"""Notices that come from what the node does: nobody can flood them."""
_LINES = {
    Notice.EVIDENCE: (logging.ERROR, "%s has sent two values for round %d: it is silent until it joins anew"),
    Notice.ACCUSED: (
        logging.ERROR,
        "%s has two values of this node for a round, as it says after its round %d: see the runbook Accused",
    ),
    Notice.GIVEN_UP: (logging.WARNING, "%s was silent in round %d: given up"),
    Notice.OVERFULL: (logging.WARNING, "%s sends far ahead of the plans: round %d was not kept"),
    Notice.JOINING: (logging.WARNING, "%s asks to join after round %d"),
    Notice.LISTENED: (logging.INFO, "%s has joined as a listener in round %d"),
}
_UNKNOWN_WRITER = (
    logging.WARNING,
    "%s has two values for round %d, and anybody may have written them: the first counts",
)


class NodeWatcher:
    """Passes everything on. The log shows unusual events, summed, and a silent source only once.

    `isolates`: whether a source that sent two values for a round counts as silent.
    """

    def __init__(
        self,
        log: logging.Logger,
        metrics: NodeMetrics,
        decisions: Decisions | None,
        predictions: Predictions | None,
        generation: int = 0,
        *,
        isolates: bool = True,
    ) -> None:
        self._log, self._metrics = log, metrics
        self._lines = _LINES if isolates else _LINES | {Notice.EVIDENCE: _UNKNOWN_WRITER}
        self._own = self._newest = generation
        self._decisions, self._predictions = decisions, predictions
        self._summed = Summed(log)
        self._silent: set[str] = set()
        timing = metrics.timing
        self.began, self.entered, self.closed = timing.began, timing.entered, timing.closed
        self.planned = timing.planned
        self.committed, self.left = metrics.committed, self._summed.end

    def report(self, report: Report) -> None:
        """Take a report of the machine."""
        self._metrics.report(report)
        if isinstance(report, Noticed):
            self._noticed(report)
        elif isinstance(report, Decided) and self._decisions is not None:
            self._decisions.write(report)
        elif isinstance(report, BeforeStep) and self._predictions is not None:
            self._predictions.write(report)

    def catch_up(self) -> None:
        """Do the work that reports have put off."""
        self._metrics.catch_up()
        self._summed.catch_up()

    def sent(self) -> None:
        """Note that the broker has acknowledged a release; in the reader's thread."""
        self._metrics.sent()

    def received(self, source: str) -> None:
        """Note a record read from an in-edge."""
        self._metrics.received(source)
        if source in self._silent:
            self._silent.discard(source)
            self._log.info("%s is heard again", source)

    def refused(self, topic: str, refused: Refused) -> None:
        """Note that a peer's record was refused. Its bytes are in the dead letters."""
        del topic  # the log would have a line for each
        reason = refused.reason
        self._metrics.refused(reason)
        self._summed.say(logging.WARNING, reason, f"a record of a peer was refused: {reason.value}")

    def wished(self, leave_from: int | None) -> None:
        """Ignored here: its plans will show it."""

    def made_by(self, generation: int) -> None:
        """Take the generation of the newest mesh file that a plan was made by."""
        if generation > self._newest:
            self._newest = generation
            text = "%s: it goes on, and does not hear who is new; start it with that file"
            self._log.warning(text, lacking(generation, self._own))
        self._metrics.made_by(generation)

    def _noticed(self, noticed: Noticed[Notice]) -> None:
        if noticed.notice is Notice.GIVEN_UP:
            if noticed.peer in self._silent:
                return
            self._silent.add(noticed.peer)
        level, text = self._lines.get(noticed.notice, (logging.DEBUG, f"{noticed.notice}: %s, round %d"))
        if noticed.notice in _OWN:
            self._log.log(level, text, noticed.peer, noticed.number)
        elif self._log.isEnabledFor(level):
            kind, line = (noticed.notice, noticed.peer), text % (noticed.peer, noticed.number)
            self._summed.say(level, kind, line)
