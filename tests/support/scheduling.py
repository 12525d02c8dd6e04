"""A scheduler machine with its topology, for the tests of its rules."""

import numpy as np

from topology.graphs import complete
from topology.plans import Heartbeat, Member, Plan
from topology.scheduler import (
    HeartbeatRead,
    PlanRead,
    PublishPlan,
    SchedulerMachine,
    SchedulerSettings,
    Started,
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
        self.send(Started(tuple(plans), tuple(heartbeats)))

    def send(self, *events):
        """Handle the events; return the rounds planned thereby."""
        before = len(self.plans)
        waiting = list(events)
        while waiting:
            for effect in self.machine.handle(waiting.pop(0)):
                if isinstance(effect, PublishPlan):
                    self.plans.append(effect.plan)
                    waiting.insert(0, PlanRead(effect.plan))
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


def plan(round, follows, members, named=()):
    """A plan without edges."""
    nothing = np.empty(0, np.int64)
    return Plan("r", round, follows, members, nothing, nothing, np.empty(0), named)


FULL = tuple(Member(name, f"{name}1") for name in ABC)
