"""The scheduler's settings, events and effects: frozen values."""

from dataclasses import dataclass
from enum import StrEnum

from topology.graph import NAME
from topology.lag import LagLimits, LeftOut
from topology.plans import Heartbeat, Plan, PlanRecord
from topology.schedules import Schedule


def heartbeat_period(silence: float | None) -> float:
    """Return the seconds between two heartbeats: 1, or less, so that ten fit into `silence`."""
    return 1.0 if silence is None else min(1.0, silence / 10)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings that all schedulers of a run share.

    `horizon` H: the number of planned rounds that a plan may be ahead of the slowest live member. `silence`:
    seconds without a heartbeat after which a node is no longer live (None: never). `min_members`: the fewest
    members of a plan (None: all nodes in the first plan, one afterwards). `rounds`: the last round of
    learning, which closing rounds follow (None: no end). `generation`: that of the mesh file. `one_process`:
    all nodes run in this process, and the topology begins anew with each start, so the first plan follows the
    furthest progress that a node reports. `lag`: how long a member may hold the others (None: for ever).
    `ends`: an operator ends the run: closing rounds begin at once, and so many seconds without another plan,
    or no live node, end them (None: it runs). Raises ValueError for values outside these ranges.
    """

    run: str
    schedule: Schedule
    horizon: int = 32
    silence: float | None = 10.0
    min_members: int | None = None
    rounds: int | None = None
    generation: int = 0
    one_process: bool = False
    lag: LagLimits | None = None
    ends: float | None = None

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
class SchedulerStarted:
    """Topology and progress were read to their ends: every stored record and heartbeat, in order.

    `whole`: the topology has not lost its beginning. `current`: as in `Ticked`.
    """

    plans: tuple[PlanRecord, ...] = ()
    heartbeats: tuple[Heartbeat, ...] = ()
    whole: bool = True
    current: int | None = None


@dataclass(frozen=True, slots=True)
class PlansRead:
    """A record was read from the topology; any scheduler may have written it.

    `ahead`: it is void by its append time (rules above `SlotClock`).
    """

    record: PlanRecord
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatRead:
    """A heartbeat was read from the progress of its node."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class Ticked:
    """`seconds` have passed on a clock that stops while the scheduler cannot read its own heartbeats.

    `current`: the clock's round, if slots are periods of time, as far as the broker's clock confirms it.
    """

    seconds: float
    current: int | None = None


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """The data ends with `round`.

    Closing rounds begin with the next plan above it; rounds that are planned already stay.
    """

    round: int


SchedulerEvent = SchedulerStarted | PlansRead | HeartbeatRead | Ticked | SourceEnded

# --------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class PublishPlans:
    """Append the plans to the topology, in their order, in one record or in several.

    The first one continues `last`, the newest plan read or published (None: it is the run's first).
    """

    last: Plan | None
    plans: tuple[Plan, ...]


class Refusal(StrEnum):
    """Why a record was ignored."""

    RUN = "record of another run"
    PLACE = "plan out of its place"
    AHEAD = "plan ahead of the clock"
    NODE = "heartbeat of an unknown node"
    REPLACED = "heartbeat of a replaced process"
    PROGRESS = "progress beyond what is planned"


@dataclass(frozen=True, slots=True)
class RecordsRefused:
    """Count a record that was ignored, by its reason."""

    reason: Refusal


SchedulerEffect = PublishPlans | RecordsRefused | LeftOut
