"""Shows how far a collaboration is: a line, or a table."""

from collections.abc import Sequence

from streams.mesh.settings.collaboration import CollaborationSettings
from streams.public.star_sight import PartySight
from streams.terminal.tables import Fitting, table

SILENT = 5.0
"""Seconds without a heartbeat, of which one is sent a second, until a party counts as silent."""


def line(mesh: CollaborationSettings, parties: Sequence[PartySight]) -> str:
    """Return the state in a line."""
    learner, *owners = parties
    number = min(learner.query, mesh.queries)
    parts = [f"query {number:,} of {mesh.queries:,}" if number else "nothing asked yet"]
    if learner.query > mesh.queries:
        parts.append("the learner is done")
    elif _state(learner) != "heard":
        parts.append(f"learner {learner.name} {_state(learner)}")
    return "; ".join([*parts, *map(_owner, owners)])


def parties_table(mesh: CollaborationSettings, parties: Sequence[PartySight]) -> Fitting:
    """Return a table of the learner and the owners."""
    learner, *owners = parties
    rows = [(learner.name, "learner", f"asked {min(learner.query, mesh.queries):,}", _state(learner))]
    rows += [(owner.name, "owner", f"answered {owner.query:,}", _state(owner)) for owner in owners]
    return table(("party", "role", "last query", "heartbeats"), rows)


def _owner(owner: PartySight) -> str:
    state = _state(owner)
    return f"{owner.name} answered {owner.query:,}" + ("" if state == "heard" else f", {state}")


def _state(party: PartySight) -> str:
    if party.age is None:
        return "never heard"
    return "heard" if party.age <= SILENT else f"silent for {party.age:,.0f} s"
