"""Members that hold the others at the end of the plans: who is left out, when, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.nodes.scheduling import Mesh, beat
from topology.lag import Lag, LagLimits
from topology.scheduler import HeartbeatRead, LeftOut, Refusal, Ticked

LIMITS = LagLimits(stuck=5.0, slow=2.0)
FAST = 8
"""Rounds in a second of the members that nobody holds."""


class Held(Mesh):
    """A mesh of which the members but `slow` step all that is planned, in ticks of a second."""

    def __init__(self, slow="c", limits=LIMITS, nodes=("a", "b", "c"), **changes):
        super().__init__(nodes, horizon=8, lag=limits, **changes)
        self.slow, self.others = slow, [name for name in nodes if name != slow]
        self.seconds, self.at, self.stepped = 0, 0, dict.fromkeys(nodes, 0)
        self.asked = None
        self.hear_all(nodes=nodes)

    def second(self, pace, *, beats=True):
        """Let a second pass in which the slow one steps `pace` rounds, if it may."""
        self.seconds += 1
        for part in range(FAST):
            for name in self.others:
                self.step(name)
            if part < pace:
                self.step(self.slow)
            self.hear(*(beat(name, self.stepped[name]) for name in self.others))
            if beats and part % 2:  # one follows every (H/4)-th step
                self.hear(beat(self.slow, self.stepped[self.slow], join_after=self.asked))
        self.send(Ticked(1.0))

    def step(self, name):
        """Step the next round in which a plan names it, once the plan after it is known; or ask to join."""
        last = self.plans[-1].round
        rounds = [plan.round for plan in self.plans if plan.member(name) and plan.round > self.stepped[name]]
        if name == self.slow and self.asked is None and last - self.stepped[name] > 8 + 1:
            self.asked = last
        if self.asked is not None and name == self.slow:
            rounds = [
                plan.round
                for plan in self.plans
                if plan.round > self.asked and plan.member(name) and not plan.member(name).full
            ]
        if rounds and rounds[0] < last:
            self.stepped[name] = rounds[0]
            self.asked = None if name == self.slow else self.asked

    @property
    def front(self):
        return min(self.stepped[name] for name in self.others)


def test_a_member_that_beats_and_never_steps_is_left_out_and_the_others_go_on():
    mesh = Held()
    while not mesh.left_out:
        mesh.second(0)
    assert mesh.left_out == [LeftOut("c", 5.0, 5.0)]
    assert mesh.seconds <= 7
    held = mesh.front
    assert held < 8
    mesh.second(0)
    assert "c" not in mesh.last
    mesh.second(0)
    assert mesh.front >= held + FAST


def test_who_does_not_step_is_left_out_although_the_others_are_not_at_the_end_of_the_plans():
    mesh = Held(limits=LagLimits(stuck=5.0))
    for _ in range(7):  # its neighbours give up its releases one by one
        for name in mesh.others:
            mesh.step(name)
        mesh.hear(*(beat(name, mesh.stepped[name]) for name in mesh.others), beat("c", 0))
        mesh.send(Ticked(1.0))
    assert mesh.front < 8
    assert mesh.left_out == [LeftOut("c", 5.0, 5.0)]


def test_who_does_not_step_is_left_out_where_all_others_wait_to_join_too():
    """A liar is the last plan's only member that keeps its place: nobody is ahead of it, or ever will be."""
    mesh = Mesh(lag=LIMITS)
    mesh.hear_all()
    planned = mesh.plans[-1].round
    for _ in range(7):
        mesh.hear(*(beat(name, 2, join_after=planned) for name in "ab"), beat("c", 0))
        mesh.send(Ticked(1.0))
    assert [left.name for left in mesh.left_out] == ["c"]
    found = {member.name: member.full for member in mesh.plans[planned].members}
    assert found == {"a": False, "b": False}  # both begin again


def test_who_does_not_step_is_left_out_where_all_others_have_lost_their_journals():
    mesh = Mesh(lag=LIMITS)
    mesh.hear_all()
    for _ in range(7):
        mesh.hear(*(beat(name, 0, instance=f"{name}2") for name in "ab"), beat("c", 0))
        mesh.send(Ticked(1.0))
    assert [left.name for left in mesh.left_out] == ["c"]


def test_a_slow_member_without_a_limit_is_waited_for():
    mesh = Held(limits=LagLimits(stuck=5.0))
    for _ in range(60):
        mesh.second(1)
    assert mesh.left_out == []


def test_without_a_limit_nobody_is_left_out():
    mesh = Held(limits=None)
    for _ in range(60):
        mesh.second(0)
    assert mesh.left_out == []
    assert mesh.front < 8


@pytest.mark.parametrize("pace", [1, 2])
def test_beside_a_slow_member_the_mesh_keeps_half_of_its_speed(pace):
    mesh = Held()
    seconds = 200
    for _ in range(seconds):
        mesh.second(pace)
    assert len(mesh.left_out) > 2
    assert mesh.front >= seconds * FAST / 2
    assert any(plan.member("c") for plan in mesh.plans[len(mesh.plans) // 2 :])  # it comes back each time


def test_who_holds_for_less_than_half_of_the_time_is_never_left_out():
    mesh = Held()
    for second in range(60):
        mesh.second(0 if second % 3 == 0 else FAST)
    assert mesh.left_out == []


def test_a_pause_that_is_shorter_than_the_limit_of_the_stuck_leaves_nobody_out():
    mesh = Held()
    for _ in range(3):
        mesh.second(FAST)
    for _ in range(4):
        mesh.second(0)
    for _ in range(20):
        mesh.second(FAST)
    assert mesh.left_out == []
    assert mesh.front > 100


def test_who_is_left_out_again_may_hold_for_half_as_long_and_stays_out_for_longer():
    mesh = Held()
    while len(mesh.left_out) < 3:
        mesh.second(1)
    held, seconds = zip(*((left.held, left.seconds) for left in mesh.left_out), strict=True)
    assert held[0] == 2.0
    assert held[1:] == (1.0, 1.0)
    assert list(seconds) == sorted(seconds)


def stops_and_goes(lag, cycles, stopped, *, per_second=10):
    """Let "c" stand for so much of each second, then catch up. Return who was left out, and when."""
    found, stepped, front = [], 0, 0
    for cycle in range(cycles):
        for tick in range(per_second):
            stands = tick < stopped * per_second
            front += 10 if not stands else 0
            stepped = stepped if stands else front
            held = ["c"] if stands else []
            left = lag.pass_time(1 / per_second, {"a": front + 8 * stands, "c": stepped}, held, held, 1)
            found += [(cycle, one) for one in left]
            if left:
                return found
    return found


def test_who_stands_for_most_of_each_second_is_left_out_although_it_catches_up_each_time():
    ((cycle, left),) = stops_and_goes(Lag(LagLimits(stuck=5.0, slow=1.0)), 10, 0.7)
    assert left.held >= 1.0
    assert 2 <= cycle <= 4  # not for the first pause


@pytest.mark.parametrize("stopped", [0.3, 0.5])
def test_who_stands_for_at_most_half_of_each_second_is_not(stopped):
    assert stops_and_goes(Lag(LagLimits(stuck=5.0, slow=1.0)), 60, stopped) == []


def test_after_it_has_kept_up_as_long_its_past_is_forgotten():
    mesh = Held()
    while not mesh.left_out:
        mesh.second(1)
    for _ in range(40):
        mesh.second(FAST)
    assert mesh.last["c"] == ("c1", True)
    while len(mesh.left_out) < 2:
        mesh.second(1)
    again = mesh.left_out[1]
    assert again.seconds == again.held


def test_a_liar_whose_progress_is_refused_holds_nobody_for_longer_either():
    mesh = Held()
    for _ in range(9):
        mesh.second(0, beats=False)
        mesh.send(HeartbeatRead(beat("c", 10**9)))
    assert Refusal.PROGRESS in mesh.refused
    assert [left.name for left in mesh.left_out] == ["c"]
    assert "c" not in mesh.last


def test_as_many_members_stay_as_a_plan_needs():
    mesh = Held(min_members=3)
    for _ in range(30):
        mesh.second(0)
    assert mesh.left_out == []


def test_where_most_are_behind_nobody_is_blamed():
    mesh = Held()
    mesh.others = ["a"]
    for _ in range(30):
        mesh.second(0)
        mesh.hear(beat("b", 0))
    assert mesh.left_out == []


def test_a_slow_member_may_hold_the_others_for_a_second_or_eight_median_rounds():
    fast, slow = Lag(LagLimits(5.0, 1.0)), Lag(LagLimits(5.0, 1.0))
    assert fast.slow_limit == 1.0
    for tick in range(1, 41):
        fast.pass_time(1.0, {"a": 50 * tick, "b": 50 * tick}, (), (), 1)
        slow.pass_time(1.0, {"a": tick // 2, "b": tick // 2}, (), (), 1)
    assert fast.slow_limit == 1.0
    assert slow.slow_limit == pytest.approx(16.0)


@pytest.mark.parametrize(
    "limits", [{"stuck": 0.0}, {"stuck": 1.0, "slow": -1.0}, {"stuck": 1.0, "slow": 0.0}]
)
def test_limits_are_above_0(limits):
    with pytest.raises(ValueError, match="must be above 0 seconds, or none"):
        LagLimits(**limits)


TICKS = st.lists(
    st.tuples(
        st.floats(0.01, 3),
        st.dictionaries(st.sampled_from("abc"), st.tuples(st.booleans(), st.integers(0, 5))),
    ),
    max_size=60,
)


@given(ticks=TICKS, slow=st.floats(0.5, 5), most=st.integers(0, 2))
def test_whoever_is_left_out_has_held_the_others_and_is_out_as_long(ticks, slow, most):
    """It has come to its limit, it is out at least as long as it has held, and no more are than may be."""
    lag, stepped = Lag(LagLimits(4.0, slow)), dict.fromkeys("abc", 0)
    held, until, clock = dict.fromkeys("abc", 0.0), dict.fromkeys("abc", 0.0), 0.0
    for seconds, members in ticks:
        clock += seconds
        found = {name: member for name, member in members.items() if name not in lag.out}
        holding = [name for name, (holds, _) in found.items() if holds]
        for name, (_, steps) in found.items():
            stepped[name] += steps
        for name in holding:
            held[name] += seconds
        left = lag.pass_time(seconds, {name: stepped[name] for name in found}, holding, holding, most)
        assert len(left) <= most
        for one in left:
            assert one.name in holding
            assert min(4.0, slow / 2 if until[one.name] else slow) <= one.held + 1e-9
            assert one.held <= held[one.name] + 1e-9
            assert one.seconds >= one.held
            until[one.name] = clock + one.seconds
        for name in "abc":
            assert (name in lag.out) == (clock < until[name] - 1e-9) or abs(clock - until[name]) < 1e-6
