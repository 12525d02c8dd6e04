"""The phases of a node machine and the steps between them, as data: a test holds it against the code.

After each event the machine repeats the action of its phase (`ACTIONS`) until that does nothing more.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from nodes.machine.events import Event, PlanArrived
from nodes.machine.joining import enter, listen
from nodes.machine.state import NodeState
from nodes.machine.stepping import decide, step


class Phase(StrEnum):
    """A node's phase between two events."""

    WAITING = "waiting"
    LISTENING = "listening"
    LEARNING = "learning"
    DECIDED = "decided"
    HALTED = "halted"


def phase_of(node: NodeState) -> Phase:
    """Return the phase of a node."""
    if node.halted:
        return Phase.HALTED
    if node.open is None:
        return Phase.WAITING
    if node.open.listening:
        return Phase.LISTENING
    return Phase.LEARNING if node.open.settled is None else Phase.DECIDED


ACTIONS: dict[Phase, Callable[[NodeState], bool]] = {
    Phase.WAITING: enter,
    Phase.LISTENING: listen,
    Phase.LEARNING: decide,
    Phase.DECIDED: step,
    Phase.HALTED: lambda _: False,
}
"""Each does what is possible now, and returns whether it did anything."""


class Transition(NamedTuple):
    """From `phase` to `then` once `when` holds: by the phase's action, or by `event` alone."""

    phase: Phase
    when: str
    does: str
    then: Phase
    event: type[Event] | None = None


_HEARD = "releases or the deadline"
_BEHIND = ("more than H plans ahead", "ask to join", Phase.WAITING, PlanArrived)

TRANSITIONS = (
    Transition(Phase.WAITING, "a plan as a full member", "send the release", Phase.LEARNING),
    Transition(Phase.WAITING, "a plan as a listener", "listen", Phase.LISTENING),
    Transition(Phase.WAITING, "a plan without a release for it", "ask to join", Phase.WAITING),
    Transition(Phase.WAITING, "the run's end, or its own", "halt", Phase.HALTED),
    Transition(Phase.WAITING, *_BEHIND),
    Transition(Phase.LISTENING, f"{_HEARD}, and the next plan", "journal the average", Phase.WAITING),
    Transition(Phase.LISTENING, *_BEHIND),
    Transition(Phase.LEARNING, _HEARD, "decide", Phase.DECIDED),
    Transition(Phase.LEARNING, *_BEHIND),
    Transition(Phase.DECIDED, "its slot and the next plan", "step, journal", Phase.WAITING),
    Transition(Phase.DECIDED, *_BEHIND),
)
