"""A scheduler machine with its topology, for the tests of its rules."""

import numpy as np

from topology.graph import complete
from topology.plans import Heartbeat, Member, Plan, after
from topology.scheduler import (
    HeartbeatRead,
    LeftOut,
    PlansRead,
    PublishPlans,
    SchedulerMachine,
    SchedulerSettings,
    SchedulerStarted,
    Ticked,
)
from topology.schedules import FixedSchedule

ABC = ("a", "b", "c")


def settings(nodes=ABC, **changes):
    given = {"run": "r", "schedule": FixedSchedule(complete(nodes)), "horizon": 4, "silence": 10.0}
    return SchedulerSettings(**(given | changes))


def beat(node, stepped=0, instance=None, **fields):
    instance = instance or f"{node}1"
    fields = {"run": "r", "boot": f"boot-{instance}"} | fields
    return Heartbeat(node=node, instance=instance, stepped=stepped, **fields)


class Mesh:
    """A scheduler and its topology: every plan is read as soon as it is published."""

    def __init__(self, nodes=ABC, plans=(), heartbeats=(), **changes):
        self.machine = SchedulerMachine(settings(nodes, **changes))
        self.plans = list(plans)
        self.refused = []
        self.left_out = []
        self.send(
            SchedulerStarted(
                tuple(records(plans)), tuple(heartbeats), whole=not plans or not plans[0].follows
            )
        )

    def send(self, *events):
        """Handle the events; return the rounds planned thereby."""
        before = len(self.plans)
        waiting = list(events)
        while waiting:
            for effect in self.machine.handle(waiting.pop(0)):
                if isinstance(effect, PublishPlans):
                    self.plans += effect.plans
                    waiting.insert(0, PlansRead(after(effect.last, effect.plans)))
                elif isinstance(effect, LeftOut):
                    self.left_out.append(effect)
                else:
                    self.refused.append(effect.reason)
        return [plan.round for plan in self.plans[before:]]

    def hear(self, *beats):
        return self.send(*map(HeartbeatRead, beats))

    def hear_all(self, stepped=0, nodes=ABC):
        return self.hear(*(beat(node, stepped) for node in nodes))

    def silence(self, *heard, seconds=11):
        """Let time pass in which only some are heard, each having stepped everything."""
        rounds = []
        for _ in range(seconds):
            rounds += self.send(Ticked(1.0))
            rounds += self.hear(*(beat(node, self.plans[-1].round) for node in heard))
        return rounds

    @property
    def last(self):
        """The last plan as name -> (instance, full)."""
        return {member.name: (member.instance, member.full) for member in self.plans[-1].members}


def records(plans):
    """A log of one scheduler, of a record for each of these plans."""
    lasts = [None, *plans]
    return [
        record(found) if found.follows and last is None else after(last, (found,))
        for last, found in zip(lasts, plans, strict=False)
    ]


def record(found):
    """The record of one plan, after a plan of nobody."""
    return after(plan(found.follows, 0, FULL) if found.follows else None, (found,))


def plan(round, follows, members, named=()):
    """A plan without edges."""
    nothing = np.empty(0, np.int64)
    return Plan("r", round, follows, members, nothing, nothing, np.empty(0), named)


FULL = tuple(Member(name, f"{name}1") for name in ABC)
