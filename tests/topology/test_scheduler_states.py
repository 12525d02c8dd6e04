"""Two schedulers on one log, among nodes that come, go, fall behind and return: what must always hold.

Schedulers publish on top of what they have not read yet. What they send takes its time to the log, arrives in
any split, and after a refusal in another order; what a scheduler that ended has sent arrives later, or never.
"""

from itertools import pairwise

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.oracles.scheduler_model import HORIZON, Node, Sent, View, says, valid
from topology.graph import ring
from topology.plans import Chain, Heartbeat, Plan, after, valid_records
from topology.scheduler import (
    HeartbeatRead,
    PlansRead,
    PublishPlans,
    SchedulerMachine,
    SchedulerSettings,
    SchedulerStarted,
    Ticked,
)
from topology.schedules import CycleSchedule, FixedSchedule, SwitchingSchedule

NODES = ("a", "b", "c", "d")
SILENCE = 3.0
SCHEDULES = {
    "fixed": FixedSchedule(ring(NODES)),
    "switching": SwitchingSchedule(ring(NODES), 0.5, seed=1),
    "cycle": CycleSchedule([ring(NODES, directed=True), ring(NODES[::-1], directed=True)]),
}


class Mesh(RuleBasedStateMachine):
    """The log of plans, the log of heartbeats, four nodes, two schedulers."""

    @initialize(
        kind=st.sampled_from(sorted(SCHEDULES)), least=st.sampled_from([None, 1, 2]), timed=st.booleans()
    )
    def begin(self, kind, least, timed):
        self.settings = SchedulerSettings("r", SCHEDULES[kind], HORIZON, SILENCE, min_members=least)
        self.least = least or len(NODES)
        self.timed = timed
        self.log: list[Sent] = []
        self.stray: list[Sent] = []
        self.in_order = True
        self.chain = Chain()
        self.taken: list[Plan] = []
        self.progress: list[Heartbeat] = []
        self.nodes = {name: Node(name) for name in NODES}
        self.now = 0.0
        self.views = [self.new_view(), self.new_view()]
        for node in self.nodes.values():
            self.progress.append(node.beat(hello=True))

    def new_view(self):
        view = View(SchedulerMachine(self.settings), len(self.log), len(self.progress))
        for beat in self.progress:
            self.learn(view, beat)
        view.heard.clear()
        self.send(view, SchedulerStarted(tuple(sent.record for sent in self.log), tuple(self.progress)))
        return view

    @staticmethod
    def learn(view, beat):
        if beat.boot >= view.known.get(beat.node, beat).boot:
            view.known[beat.node] = beat
            view.heard[beat.node] = view.clock

    # ----------------------------------------------------------------------------------------- rules

    @rule(name=st.sampled_from(NODES), rounds=st.integers(0, 6))
    def node_steps(self, name, rounds):
        node, chain = self.nodes[name], valid(self.log)
        for _ in range(rounds):
            if not node.step(chain):
                break
        self.progress.append(node.beat())

    @rule(name=st.sampled_from(NODES), lost=st.booleans(), straggles=st.booleans())
    def node_restarts(self, name, lost, straggles):
        node = self.nodes[name]
        old = node.beat()
        node.boot += 1
        node.join_after = None
        if lost:
            node.instance, node.stepped = node.boot, 0
        self.progress.append(node.beat(hello=True))
        if straggles:
            self.progress.append(old)

    @rule(name=st.sampled_from(NODES), ahead=st.integers(-2, 6))
    def node_leaves(self, name, ahead):
        chain = valid(self.log)
        self.nodes[name].leave_from = max(1, (chain[-1].round if chain else 0) + ahead)
        self.progress.append(self.nodes[name].beat())

    @rule(name=st.sampled_from(NODES))
    def node_stays(self, name):
        self.nodes[name].leave_from = None
        self.progress.append(self.nodes[name].beat())

    @rule(which=st.integers(0, 1), plans=st.integers(0, 6), beats=st.integers(0, 6))
    def scheduler_reads(self, which, plans, beats):
        self.read(self.views[which], plans, beats)

    @rule()
    def both_read_everything(self):
        for view in self.views:
            self.read(view, 100, 100)

    @rule(which=st.integers(0, 1), seconds=st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    def time_passes(self, which, seconds):
        self.tick(self.views[which], seconds)

    @rule(which=st.integers(0, 1))
    def scheduler_restarts(self, which):
        self.stray += self.views[which].sending
        self.views[which] = self.new_view()

    @rule(which=st.integers(0, 1), count=st.integers(1, 6))
    def records_arrive(self, which, count):
        self.arrive(self.views[which].sending, count)

    @rule(which=st.integers(0, 1))
    def a_record_is_refused_at_first(self, which):
        sending = self.views[which].sending
        sending[:] = [*sending[1:], *sending[:1]]
        self.in_order &= len(sending) < 2

    @rule(count=st.integers(1, 3), lost=st.booleans())
    def what_an_ended_scheduler_sent_arrives_or_is_lost(self, count, lost):
        if lost:
            del self.stray[:count]
        self.arrive(self.stray, count)

    # --------------------------------------------------------------------------------------- effects

    def arrive(self, sending, count):
        """Append the first records to the log, as a reader takes them."""
        for sent in sending[:count]:
            self.log.append(sent)
            if self.chain.take(sent.record):
                self.taken += sent.record.plans
        del sending[:count]
        assert list(map(says, self.taken)) == list(map(says, valid(self.log)))
        for number, plan in enumerate(self.taken):  # what it says of the plans before it is so
            assert plan.named == self.named(self.taken[:number])

    def read(self, view, plans, beats):
        for _ in range(plans):
            if view.plans < len(self.log):
                self.settle(view, self.log[view.plans])
                view.plans += 1
                self.send(view, PlansRead(self.log[view.plans - 1].record))
        for beat in self.progress[view.beats : view.beats + beats]:
            view.beats += 1
            self.learn(view, beat)
            self.send(view, HeartbeatRead(beat))

    def settle(self, view, sent):
        """Take from `ahead` what is read, or is void."""
        before, plans = valid(self.log[: view.plans]), sent.record.plans
        if len(valid(self.log[: view.plans + 1])) > len(before):
            own = says(plans[-1]) in map(says, view.ahead[len(plans) - 1 : len(plans)])
            view.ahead, view.unread = view.ahead[len(plans) :] if own else [], 0.0
            view.missing.clear()
        elif says(plans[-1]) in map(says, view.ahead):
            end = list(map(says, view.ahead)).index(says(plans[-1])) + 1
            lost = sent.record.continues in view.missing  # a second one that continues what has not come
            view.missing.add(sent.record.continues)
            view.ahead = [] if lost else view.ahead[: max(0, end - len(plans))]

    def tick(self, view, seconds):
        view.clock += seconds
        self.now += seconds
        view.unread = view.unread + seconds if view.ahead else 0.0
        if view.unread > SILENCE:  # lost, as far as it knows
            view.ahead, view.unread = [], 0.0
        self.send(view, Ticked(seconds, int(self.now) if self.timed else None))

    def send(self, view, event):
        published = [effect for effect in view.machine.handle(event) if isinstance(effect, PublishPlans)]
        assert len(published) <= 1
        for effect in published:
            known = valid(self.log[: view.plans])
            assert len(effect.plans) <= HORIZON
            assert effect.last is ([*known, *view.ahead] or [None])[-1]
            for plan in effect.plans:
                self.check(plan, [*known, *view.ahead], view)
                view.ahead.append(plan)
            view.sending += self.split(effect)

    def split(self, effect):
        """The records of what is published: of one plan, of two, of one, and so on."""
        last, left, size = effect.last, effect.plans, 1 + len(self.log) % 3
        while left:
            yield Sent(after(last, left[:size]), last)
            last, left, size = left[:size][-1], left[size:], 3 - min(size, 2)

    # ---------------------------------------------------------------------------------- what must hold

    def check(self, plan, chain, view):
        last = chain[-1] if chain else None
        assert last is None or not last.ended
        assert plan.follows == (last.round if last else 0)
        assert plan.round > plan.follows
        assert plan.named == self.named(chain)
        if plan.ended:
            return
        self.check_members(plan, last, view)
        self.check_weights(plan)
        if last is not None:
            for member in last.members:
                self.check_horizon(member, chain, view)

    @staticmethod
    def named(chain):
        counts: dict[str, int] = {}
        for plan in chain:
            for member in plan.members:
                counts[member.name] = counts.get(member.name, 0) + 1
        return tuple(sorted(counts.items()))

    def check_members(self, plan, last, view):
        assert any(member.full for member in plan.members)
        if last is None:
            assert len(plan.members) >= self.least
        for member in plan.members:
            known = view.known.get(member.name)
            if known is not None:  # the newest process speaks for its node
                assert known.instance == member.instance
                assert known.leave_from is None or plan.round < known.leave_from
            if last is None:
                assert member.full
            elif member.full:
                before = last.member(member.name)
                assert before is not None
                assert before.instance == member.instance
        for name in NODES:
            known = view.known.get(name)
            wishes = known is not None and (known.leave_from is not None or known.join_after is not None)
            if self.surely_live(view, name) and not wishes:
                assert plan.member(name) is not None

    def check_weights(self, plan):
        size = len(plan.members)
        matrix = np.zeros((size, size))
        matrix[plan.targets, plan.sources] = plan.weights
        full = np.array([member.full for member in plan.members])
        assert (matrix[:, ~full] == 0).all()
        inside = matrix[np.ix_(full, full)]
        inside += np.diag(1 - inside.sum(1))
        assert (inside >= -1e-12).all()
        assert np.allclose(inside.sum(0), 1, atol=1e-12)
        for row in matrix[~full]:
            heard = row[row > 0]
            assert np.allclose(heard * heard.size, 1)
        graph = self.settings.schedule.graph
        names = [member.name for member in plan.members]
        for source, target in zip(plan.sources.tolist(), plan.targets.tolist(), strict=True):
            assert names[source] in graph.into[graph.index[names[target]]]

    @staticmethod
    def surely_live(view, name):
        return name in view.heard and view.clock - view.heard[name] <= SILENCE

    def check_horizon(self, member, chain, view):
        """Whoever is live, was planned and can go on is at most H planned rounds behind the new plan."""
        known = view.known.get(member.name)
        if known is None or not self.surely_live(view, member.name) or known.instance != member.instance:
            return
        if known.join_after is not None or known.leave_from is not None:
            return
        joined = [plan.follows for plan in chain if self.joins(plan, member)]
        stepped = max([known.stepped, *joined])
        assert sum(plan.round > stepped for plan in chain) + 1 <= HORIZON

    @staticmethod
    def joins(plan, member):
        listed = plan.member(member.name)
        return listed is not None and listed.instance == member.instance and not listed.full

    def check_what_a_cut_log_tells(self):
        """Wherever the log begins: its plans are known two horizons later, if they came in order."""
        whole = list(map(says, valid(self.log)))
        for cut in range(len(self.log)):
            known = whole[len(valid(self.log[:cut])) + 2 * HORIZON :]
            if known and self.in_order:
                records = valid_records([sent.record for sent in self.log[cut:]], whole=False)
                found = [says(plan) for record in records for plan in record.plans]
                assert found[-len(known) :] == known

    # --------------------------------------------------------------------------------------- the end

    def teardown(self):
        """Whatever has happened: once all is well for a while, the mesh goes on, or the run is over."""
        if not hasattr(self, "nodes"):
            return
        for node in self.nodes.values():
            node.leave_from = None
            self.progress.append(node.beat())
        before = len(valid(self.log))
        for _ in range(15):
            chain = valid(self.log)
            for node in self.nodes.values():
                while node.step(chain):
                    pass
                self.progress.append(node.beat())
            for view in self.views:
                self.arrive(view.sending, 1000)
                self.read(view, 1000, 1000)
                self.tick(view, 0.5)
            self.arrive(self.stray, 1)
        for view in self.views:
            self.arrive(view.sending, 1000)
        self.check_what_a_cut_log_tells()
        chain = valid(self.log)
        assert all(plan.round > earlier.round for earlier, plan in pairwise(chain))
        if chain[-1].ended:
            return
        assert len(chain) > before + 2 * HORIZON
        assert [member.full for member in chain[-1].members] == [True] * len(NODES)


Mesh.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestMesh = Mesh.TestCase
