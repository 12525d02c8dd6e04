"""Finds the slots by time that have ended at a given moment."""

from nodes.machine.time_slots import TimeSlots
from streams.mesh.file import MeshFile

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def has_ended(file: MeshFile, now: float) -> bool:
    """Return whether every slot of the run had ended at `now`, in seconds since 1970."""
    slots, rounds = file.resolved.slots(), file.mesh.rounds
    return isinstance(slots, TimeSlots) and rounds is not None and slots.end(rounds) <= now


def begins(file: MeshFile, now: float) -> str:
    """Return when slot 1 begins, seen from `now`: in 12 s, 5 min ago."""
    slots = file.resolved.slots()
    left = slots.end(0) - now if isinstance(slots, TimeSlots) else 0.0
    return f"in {left:,.0f} s" if left > 0 else _ago(-left)


def refuse_ended(file: MeshFile, now: float) -> None:
    """Raise MeshFileError if every slot of the run had ended at `now`."""
    end = ended_slots(file, file.mesh.rounds, now)
    if end is not None and has_ended(file, now):
        allowed = f"{end}: must be later; with up --replay a mesh starts now, and all times move along"
        raise file.refuse(("mesh", "slots", "start"), allowed)


def ended_slots(file: MeshFile, rounds: int | None, now: float) -> str | None:
    """Return which slots had ended at `now`, and what that means on a broker; None if slot 1 had not."""
    slots = file.resolved.slots()
    if not isinstance(slots, TimeSlots) or slots.end(1) > now:
        return None
    first = f"slot 1 ended {_ago(now - slots.end(1))}"
    if rounds is not None and slots.end(rounds) <= now:
        last = f", and slot {rounds:,}, the last, {_ago(now - slots.end(rounds))}" if rounds > 1 else ""
        return f"{first}{last}: on a broker no record enters a slot any more"
    if slots.round_of(now) <= file.mesh.horizon:
        return first
    return f"{first}: a run that begins now on a broker begins with slot {slots.round_of(now):,}"


def _ago(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
    return f"{seconds / size:,.0f} {unit} ago"
