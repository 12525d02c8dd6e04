"""Where a new journal of a run begins: at what the run's other lives in its folder have charged."""

from dataclasses import replace
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import Spend, together
from streams.state.journal_file import Life
from streams.state.spends import all_spends


def next_life(state: Path, life: Life, price: Price | None) -> Life:
    """Return `life` with what the folder knows that others of its run have charged, if there are such.

    What was charged behind the back of `.spends` (a kill, and the journal deleted) nobody knows: the account
    says so. Raises ValueError where `price` is another than theirs, JournalError.
    """
    lives = run_lives(state, life)
    for other in lives:
        known = other.settings or other.epsilon is not None
        if price is not None and known and (changed := other.price.changed(price)):
            raise ValueError(f"{life.run} has charged in this folder, and its {changed.words}")
    cost = 0.0
    if all(other.settings for other in lives):  # else nobody knows that costs add up as one price's do
        for other in lives:
            cost = together(cost, other.stream_epsilon)
    return replace(life, carried=sum(other.charged for other in lives), carried_epsilon=cost)


def run_lives(state: Path, life: Life) -> list[Spend]:
    """Return what is known of the lives of the run that have charged, or may have."""
    found = [spend for spend in all_spends(state, life.node) if spend.run == life.run]
    paid = [spend for spend in found if spend.charged or spend.open]
    return [spend for spend in paid if not (spend.mesh and life.mesh) or spend.mesh == life.mesh]
