"""What goes into a scheduler, and what comes out: frozen values, nothing else."""

from dataclasses import dataclass
from enum import StrEnum

from topology.graph import NAME
from topology.plans import Heartbeat, Plan
from topology.schedules import Schedule


def heartbeat_period(silence: float | None) -> float:
    """Return the seconds from one heartbeat to the next: 1, or less, so that ten fit into `silence`."""
    return 1.0 if silence is None else min(1.0, silence / 10)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What every scheduler of a run is given alike.

    `horizon` H: how many planned rounds a plan may be ahead of the slowest live member. `silence`: seconds
    after which a node that is not heard is no longer live (None: never). `min_members`: nothing is planned
    for fewer (None: all nodes in the first plan, one afterwards). `rounds`: the last round (None: no end).
    Raises ValueError for values outside these ranges.
    """

    run: str
    schedule: Schedule
    horizon: int = 32
    silence: float | None = 10.0
    min_members: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        size = len(self.schedule.graph.nodes)
        if not NAME.fullmatch(self.run):
            raise ValueError(f"run {self.run!r}: a name is made of a-z, 0-9 and -")
        if self.horizon < 1:
            raise ValueError(f"horizon {self.horizon}: must be at least 1")
        if self.silence is not None and not self.silence > 0:
            raise ValueError(f"silence {self.silence}: must be above 0 seconds, or none")
        if self.min_members is not None and not 1 <= self.min_members <= size:
            raise ValueError(f"min_members {self.min_members}: must be from 1 to the {size} nodes, or none")
        if self.rounds is not None and self.rounds < 1:
            raise ValueError(f"rounds {self.rounds}: must be at least 1, or none")


# ---------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Started:
    """Topology and progress were read to their ends: all plans that are kept, all heartbeats, in order."""

    plans: tuple[Plan, ...] = ()
    heartbeats: tuple[Heartbeat, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanRead:
    """A plan was read from the topology, whoever wrote it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class HeartbeatRead:
    """A heartbeat was read from the progress of its node."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class Ticked:
    """`seconds` have passed on a clock that stands still while the scheduler cannot read its own beats.

    `current`: the round that the clock is in, where slots are periods of time.
    """

    seconds: float
    current: int | None = None


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """Nothing beyond `round` is needed: the next plan above it ends the run; what is planned stays."""

    round: int


SchedulerEvent = Started | PlanRead | HeartbeatRead | Ticked | SourceEnded

# --------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """Append the plan to the topology. The machine publishes no other until it reads one of that round."""

    plan: Plan


class Refusal(StrEnum):
    """Why a record was ignored."""

    RUN = "record of another run"
    PLACE = "plan out of its place"
    NODE = "heartbeat of an unknown node"
    REPLACED = "heartbeat of a replaced process"


@dataclass(frozen=True, slots=True)
class Refused:
    """A record was ignored: to be counted by reason."""

    reason: Refusal


SchedulerEffect = PublishPlan | Refused
