"""The machine's phase table has every step that the machine takes, and none that it never takes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.machine.events import Journal, Notice, PlanArrived, Started
from nodes.machine.machine import ACTIONS, TRANSITIONS, Phase, phase_of
from nodes.protocol import DeadlinePassed, Noticed
from tests.support.nodes.machines import HORIZON, end, machine, neighbours, of, plan, slot

HALVES = dict.fromkeys(("bc", "cb", "ba", "ca"), 0.5)
PLANS = {"plan": {}, "listen": {"listeners": ("a",), "edges": HALVES}, "without": {"names": "bc"}}
EVENTS = [*PLANS, "plans", "end", "heard", "slot", "deadline", "start again"]


class Driven:
    """A machine that takes events by name; each step is noted as (phase, event or None, phase)."""

    def __init__(self, monkeypatch):
        self.steps = set()
        for phase, act in ACTIONS.items():
            monkeypatch.setitem(ACTIONS, phase, self._noting(phase, act))

    def begin(self):
        self._records, self._plans, self._before = [], [], None
        self._start()

    def _start(self):
        self._machine = machine(deadlines=True)
        self._handle(Started(tuple(self._records[-HORIZON:]), tuple(self._plans)))

    def take(self, name):
        if name in PLANS:
            self._plan(**PLANS[name])
        elif name == "plans":
            for _ in range(HORIZON + 1):
                self._plan()
        elif name == "end":
            self._handle(end(len(self._plans) + 1))
        elif name == "start again":
            self._start()
        elif self._machine._node.open is not None:
            self._in_round(name, self._machine._node.open)

    def _plan(self, **members):
        round = len(self._plans) + 1
        self._plans.append(PlanArrived(plan(round, **members), round))
        self._handle(self._plans[-1])

    def _in_round(self, name, opened):
        if name == "heard":
            for message in neighbours(opened.round):
                self._handle(message)
        elif name == "slot" and opened.slot is None and not opened.listening:
            self._handle(slot(opened.round))
        elif name == "deadline":
            self._handle(DeadlinePassed(opened.round))

    def _handle(self, event):
        if self._machine.halted:
            return
        self._before = phase_of(self._machine._node)
        self._records += [effect.record for effect in of(self._machine.handle(event), Journal)]

    def _noting(self, phase, act):
        def noted(node):
            joins = any(effect.notice is Notice.JOINING for effect in of(node.effects, Noticed))
            if self._before is not None and (joins or phase is not self._before):
                self.steps.add((self._before, PlanArrived, phase))
            self._before = None
            acted = act(node)
            if acted or phase_of(node) is not phase:
                self.steps.add((phase, None, phase_of(node)))
            return acted

        return noted


def test_the_table_has_the_steps_of_the_machine_and_no_others(monkeypatch):
    driven = Driven(monkeypatch)

    @settings(max_examples=300, derandomize=True, deadline=None, database=None)
    @given(st.lists(st.sampled_from(EVENTS), min_size=5, max_size=40))
    def drive(names):
        driven.begin()
        for name in names:
            driven.take(name)

    drive()
    assert driven.steps == {(one.phase, one.event, one.then) for one in TRANSITIONS}


def test_every_phase_is_entered_and_only_a_halted_one_is_not_left():
    assert {one.then for one in TRANSITIONS} == set(Phase) == set(ACTIONS)
    assert {one.phase for one in TRANSITIONS} == set(Phase) - {Phase.HALTED}
