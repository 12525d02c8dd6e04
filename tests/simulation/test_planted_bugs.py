"""Bugs planted in the real code: each is found within 500 histories."""

from functools import partial
from pathlib import Path

import pytest

from nodes.learner import Learner
from nodes.machine import machine
from nodes.machine.events import Notice, SendRelease
from nodes.machine.history import History, InEdge
from nodes.machine.machine import ACTIONS, NodeMachine, Phase
from nodes.machine.membership import Membership
from nodes.machine.state import NodeState
from nodes.regret import LocalRegret
from nodes.values import Release
from streams.codec.envelope import SignedEnvelope
from streams.mesh.file import load
from streams.runtime.deadlines import Deadlines
from streams.runtime.runner import Runner
from streams.simulation.search import MeshStage, search
from topology.lag import Lag
from topology.roster import Roster
from topology.scheduler import Claims, SchedulerMachine

MESH = Path(__file__).parent / "mesh.yaml"
MOST = 500


def send_before_journal(patch):
    handle = NodeMachine.handle

    def reordered(self, event):
        return tuple(sorted(handle(self, event), key=lambda effect: not isinstance(effect, SendRelease)))

    patch.setattr(NodeMachine, "handle", reordered)


def redraw_on_replay(patch):
    start = NodeMachine._start
    patch.setattr(
        NodeMachine, "_start", lambda self, event: start(self, event._replace(records=event.records[:-1]))
    )


def charge_after_send(patch):
    write = NodeState.write

    def late(self, following, *, charged, **given):
        before = self.history.record
        write(self, following, charged=charged if before is None else before.charged, **given)

    patch.setattr(NodeState, "write", late)


def second_value_accepted(patch):
    receive = InEdge.receive

    def taken(self, message, offset, *given):
        notice = receive(self, message, offset, *given)
        if notice is Notice.EVIDENCE:
            self.accused.clear()
            self._kept[message.round, message.instance] = (message.release, offset)
            return None
        return notice

    patch.setattr(InEdge, "receive", taken)


def record_skipped(patch):
    moved_on = machine._moved_on

    def skipping(before, after):
        moved = moved_on(before, after)
        return tuple((partition, offset + (offset == 7)) for partition, offset in moved)

    patch.setattr(machine, "_moved_on", skipping)


def wrong_alpha_after_a_gap(patch):
    """The step size of the round before the next one, which is not this one where the plans skip rounds."""
    step = machine.step

    def wrong(node):
        opened, learner = node.open, node.learner
        following = node.book.first_after(opened.round)
        if following is not None:
            node.learner = _Late(learner, following.round - 1)
        try:
            return step(node)
        finally:
            node.learner = learner

    patch.setitem(ACTIONS, Phase.DECIDED, wrong)


class _Late:
    def __init__(self, learner, round):
        self._learner, self._round = learner, round

    def __getattr__(self, name):
        return getattr(self._learner, name)

    def learn(self, round, *given):
        return self._learner.learn(self._round, *given)


def expiry_by_bare_timer(patch):
    def at_once(self, started):
        self._loop.put(lambda: self._passed(started.number))
        return True

    patch.setattr(Deadlines, "_read_to_the_ends", at_once)


def correction_twice(patch):
    remember = History.remember

    def kept(self, record):
        lost = {place: self._lost[place] for place in record.corrected if place in self._lost}
        remember(self, record)
        self._lost.update(lost)

    patch.setattr(History, "remember", kept)


def progress_believed_without_bound(patch):
    patch.setattr(Claims, "limit", lambda self, last: 2**62)


def poison_that_ends_a_reader(patch):
    def take(self, topic, arrived):
        self._events.extend(self.role.decode[topic](arrived))
        self._go_on()

    patch.setattr(Runner, "_take", take)


def send_before_the_append_is_done(patch):
    """Each append is begun, and what follows goes out meanwhile."""

    def keep(self, keep, effect):
        self._world.commits(partial(keep, effect)) if self._world.commits else keep(effect)

    patch.setattr(Runner, "_keep", keep)


def stuck_member_waited_for(patch):
    patch.setattr(Lag, "pass_time", lambda *given: [])


def signatures_believed(patch):
    patch.setattr(SignedEnvelope, "_verified", lambda self, key, signer, signature, message: message)


def regret_of_the_wrong_sign(patch):
    value = LocalRegret.value
    patch.setattr(LocalRegret, "value", lambda self: value(self).map(lambda found: -found))


def closing_round_learnt_in(patch):
    opened = NodeState.open_round

    def learning(self, plan):
        chosen = opened(self, plan)
        chosen.closing = False
        return chosen

    patch.setattr(NodeState, "open_round", learning)


def leaver_that_learns_to_the_end(patch):
    patch.setattr(Membership, "closes", lambda self, round: False)


def relay_that_shrinks(patch):
    relay = Learner.relay
    patch.setattr(Learner, "relay", lambda self, consensus: Release(0.9 * relay(self, consensus)))


def no_closing_rounds(patch):
    patch.setattr(SchedulerMachine, "_closes", lambda self, last, round: False)


def closing_rounds_before_all_have_learnt(patch):
    patch.setattr(Roster, "learns_no_more", lambda self, name, round: self.stepped(name) > 3)


BUGS = {
    closing_round_learnt_in: "which is a closing one",
    leaver_that_learns_to_the_end: "which is a closing one",
    relay_that_shrinks: "another value than it has mixed",
    no_closing_rounds: "lets nodes learn after round",
    closing_rounds_before_all_have_learnt: "not all have learnt what they may",
    send_before_journal: "before its journal",
    redraw_on_replay: "charges or draws",
    charge_after_send: "charge",
    second_value_accepted: "is not the first that stood on the edge",
    record_skipped: "reads records",
    wrong_alpha_after_a_gap: "has not drawn it",
    expiry_by_bare_timer: "stands on the edge since",
    correction_twice: "twice, or for nothing",
    progress_believed_without_bound: "is far ahead",
    poison_that_ends_a_reader: "Refused",
    send_before_the_append_is_done: "before its journal",
    stuck_member_waited_for: "it does not go on",
    signatures_believed: "of whom nothing has come",
    regret_of_the_wrong_sign: "is not that of its journal",
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch):
    stage = MeshStage(load(MESH))
    bug(monkeypatch)
    failed = next((found for found in search(stage, range(MOST)) if found.violation is not None), None)
    assert failed is not None, f"not found in {MOST} histories"
    if bug is send_before_the_append_is_done:
        assert failed.seed < 100
    assert BUGS[bug] in failed.violation, f"seed {failed.seed}: {failed.violation}"
