"""Models of what two schedulers on one log deal with: nodes, what is under way, and which plans are valid."""

from dataclasses import dataclass, field

from topology.plans import Heartbeat, Plan, PlanRecord
from topology.scheduler import SchedulerMachine

HORIZON = 4
"""Planned rounds that a node may be behind."""


@dataclass
class Node:
    """A node as its own machine behaves: it steps what is planned for it, or asks to join."""

    name: str
    boot: int = 0
    instance: int = 0
    stepped: int = 0
    join_after: int | None = None
    leave_from: int | None = None

    def beat(self, *, hello=False):
        return Heartbeat(
            "r",
            self.name,
            f"{self.name}-{self.instance}",
            f"{self.boot:04d}",
            self.stepped,
            self.join_after,
            self.leave_from,
            hello,
        )

    def step(self, chain):
        """Take the next planned round; return whether there was one."""
        reached = max(self.stepped, self.join_after or 0)
        mine = f"{self.name}-{self.instance}"
        ahead = [plan for plan in chain if plan.round > self.stepped]
        if self.stepped and self.join_after is None and len(ahead) > HORIZON:
            self.join_after = chain[-1].round
            return False
        for plan in chain:
            member = plan.member(self.name)
            if plan.round <= reached or member is None or member.instance != mine:
                continue
            if member.full and self.join_after is not None:
                continue
            if not member.full or plan.follows == self.stepped:
                self.stepped, self.join_after = plan.round, None
                return True
            self.join_after = chain[-1].round
            return False
        return False


@dataclass
class Sent:
    """A record, and the plan that it was made to continue."""

    record: PlanRecord
    last: Plan | None


@dataclass
class View:
    """One scheduler, what it has read, what of its own is under way, and what it counts as planned."""

    machine: SchedulerMachine
    plans: int = 0
    beats: int = 0
    clock: float = 0.0
    heard: dict[str, float] = field(default_factory=dict)
    known: dict[str, Heartbeat] = field(default_factory=dict)
    sending: list[Sent] = field(default_factory=list)
    ahead: list[Plan] = field(default_factory=list)
    missing: set[bytes] = field(default_factory=set)
    unread: float = 0.0


def says(plan):
    """All that a plan says, to compare two of them by."""
    if plan is None:
        return None
    arrays = plan.sources.tobytes(), plan.targets.tobytes(), plan.weights.tobytes()
    return plan.round, plan.follows, plan.members, plan.named, *arrays


def valid(log):
    """The valid plans of the log: records that were made for the last valid plan, each whole."""
    chain: list[Plan] = []
    for sent in log:
        last = chain[-1] if chain else None
        if says(sent.last) == says(last) and not (last is not None and last.ended):
            chain += sent.record.plans
    return chain
