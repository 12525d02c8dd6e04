"""Begins a new journal with the charges of the run's other lives in its folder."""

from dataclasses import replace
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import Spend, together
from streams.state.journal_file import Life
from streams.state.spends import all_spends


def next_life(state: Path, life: Life, price: Price | None) -> Life:
    """Return `life` with the charges of other lives of its run that the folder knows, if any.

    Charges that `.spends` missed (after a kill, with the journal deleted) are unknown, and the account says
    so. Raises ValueError if `price` differs from theirs, JournalError.
    """
    lives = run_lives(state, life)
    for other in lives:
        known = other.settings or other.epsilon is not None
        if price is not None and known and (changed := other.price.changed(price)):
            raise ValueError(f"{life.run} has charged in this folder, and its {changed.words}")
    cost = 0.0
    if all(other.settings for other in lives):  # otherwise they may have had different prices
        for other in lives:
            cost = together(cost, other.stream_epsilon)
    return replace(life, carried=sum(other.charged for other in lives), carried_epsilon=cost)


def run_lives(state: Path, life: Life) -> list[Spend]:
    """Return the known lives of the run that have charged, or may have."""
    found = [spend for spend in all_spends(state, life.node) if spend.run == life.run]
    paid = [spend for spend in found if spend.charged or spend.open]
    return [spend for spend in paid if not (spend.mesh and life.mesh) or spend.mesh == life.mesh]
