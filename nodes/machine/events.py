"""The node machine's events and effects, beside those of `nodes.protocol`: frozen values.

The shell feeds events one by one, each after all effects of the one before are done, in order. A `Journal` is
done when its record is durable, a `SendRelease` when the producer has accepted the message. A deadline is
`round_timeout`.
"""

from enum import StrEnum
from typing import NamedTuple

from nodes.machine.journal import DataPosition, JournalRecord, ReleaseMessage
from nodes.machine.slots import Place
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline, Stepped
from nodes.values import Average, BoolArray, Decision, FloatArray, Observations, Release
from topology.plans import Heartbeat, Plan

# ---------------------------------------------------------------------------------------------- events


class PlanArrived(NamedTuple):
    """A plan was read from the topology, at that offset."""

    plan: Plan
    offset: int


class Started(NamedTuple):
    """The process has started. `records`: the journal's last rounds, oldest first (none: a new journal).

    `plans`: the topology from the last record's `topology_position` to its end. `secret`: the mechanism's
    state beside the last record. `carried`: the rounds that earlier lives of the journal have charged.
    `leave_from`: that of an earlier `LeaveAsked` of the owner, if any.
    """

    records: tuple[JournalRecord, ...] = ()
    plans: tuple[PlanArrived, ...] = ()
    secret: Secret | None = None
    carried: int = 0
    leave_from: int | None = None


class ReleaseArrived(NamedTuple):
    """A well-formed release was read from an edge into this node, at that offset."""

    message: ReleaseMessage
    offset: int


class SlotClosed(NamedTuple):
    """The slot opened by `OpenSlot` is closed; the next slot's records start at `position`.

    `places`: each observation's place in the data topic. `counts` (n,): which of them are learnt from: those
    in a seat of their unit, or those not kept back; None: all. `truth` (d,): the right decision, if the
    records hold it; nothing is learnt from it. `read`: the offsets after the last record that this slot or an
    earlier one may hold; (): the same as `position`.
    """

    round: int
    observations: Private[Observations]
    position: DataPosition
    places: Private[tuple[Place, ...]] = Private(())
    truth: Private[FloatArray | None] = Private(None)
    read: DataPosition = ()
    counts: Private[BoolArray | None] = Private(None)


class NoSlot(NamedTuple):
    """The slot of this round, which was opened, is never closed, as there are no records for it."""

    round: int


class LeaveAsked(NamedTuple):
    """The owner asks that no plan names the node from round `leave_from` on (None: withdraws the request)."""

    leave_from: int | None


Event = Started | PlanArrived | ReleaseArrived | SlotClosed | NoSlot | DeadlinePassed | LeaveAsked

# --------------------------------------------------------------------------------------------- effects


class Journal(NamedTuple):
    """Make record and secret durable, both or neither, before the next effect.

    Any error ends the process. `secret` replaces the previous secret (None: it is deleted).
    """

    record: JournalRecord
    secret: Secret | None = None


class SendRelease(NamedTuple):
    """Send the message on the edges to `targets`; send it again until it is acknowledged."""

    targets: tuple[str, ...]
    message: ReleaseMessage


class OpenSlot(NamedTuple):
    """Collect the records of this round's slot, from `position` on (None: from the topic's end)."""

    round: int
    position: DataPosition | None


class SendHeartbeat(NamedTuple):
    """Append the heartbeat to `progress.<i>` now, in addition to those that the shell sends each period."""

    heartbeat: Heartbeat


# --------------------------------------------------------------------------------------------- reports


class Notice(StrEnum):
    """An event with peers or plans: public, counted by the shell."""

    DUPLICATE = "duplicate release"
    EVIDENCE = "second value for a round"
    STALE = "release too old to matter"
    OVERFULL = "release held back beyond 2H"
    GIVEN_UP = "release given up"
    CORRECTED = "late release made good"
    PLAN_IGNORED = "plan out of its place"
    JOINING = "asked to join"
    LISTENED = "joined as a listener"
    ACCUSED = "a reader of the own releases has two values for a round"


class Evidence(NamedTuple):
    """A peer has sent two values for one round: `message`, and the `first` value. Keep both."""

    message: ReleaseMessage
    first: Release


class Decided(NamedTuple):
    """The round's decision is fixed (public), and can be acted on. `heard`: the releases of its consensus.

    `edges`: the sources of the plan's in-edges, heard or given up. `average`: the mean of the decisions up to
    this one, which is public as they are.
    """

    round: int
    decision: Decision
    own: Release
    heard: tuple[Release, ...]
    edges: tuple[str, ...] = ()
    average: Average | None = None


class BeforeStep(NamedTuple):
    """A slot before learning, with the decision made before the slot (private), for predictions.

    After a crash it may be repeated.
    """

    round: int
    decision: Decision
    observations: Private[Observations]
    places: Private[tuple[Place, ...]]
    counts: Private[BoolArray | None] = Private(None)


class Scored(NamedTuple):
    """The slot's score of the decision (private), for the owner only.

    `gradient` is the slot's mean gradient before clipping, shape (d,); `clipped` and `broken` count
    observations; `truth` and `counts` are the slot's.
    """

    round: int
    decision: Decision
    observations: Private[Observations]
    gradient: Private[FloatArray]
    clipped: Private[int]
    broken: Private[int]
    truth: Private[FloatArray | None] = Private(None)
    counts: Private[BoolArray | None] = Private(None)


Report = Noticed[Notice] | Evidence | Decided | BeforeStep | Stepped[JournalRecord] | Scored
Effect = Journal | SendRelease | OpenSlot | StartDeadline | SendHeartbeat | Halt | Report
