"""What earlier runs over the same records do to a guarantee, in words that follow it."""

from dataclasses import dataclass
from typing import Literal

from nodes.decimals import as_text
from nodes.privacy.spends import Spend, total

Word = Literal["end", "reused"]
"""What an operator says of records that unknown runs have read: none is read again, or some are."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Earlier runs over one node's data: those that its state folder knows, or its operator's word.

    Attributes
    ----------
    earlier : tuple of Spend
        What the state folder knows of other runs.
    own : Spend
        This run's, open.
    word : {"end", "reused"} or None
        What the operator has said where the folder of earlier runs is not here.
    spent : int
        The charged rounds of which the operator has said so (`--spent`).
    """

    earlier: tuple[Spend, ...]
    own: Spend
    word: Word | None = None
    spent: int = 0

    def sentence(self) -> str:
        """Return what is to be added to the guarantee; nothing where this is the first run."""
        known = [spend for spend in self.earlier if spend.charged or spend.open]
        said = [_of_runs(known, self.own)] if known else []
        if self.word is not None:
            said.append(_of_word(self.word, self.spent))
        return " ".join(said)


def _of_runs(known: list[Spend], own: Spend) -> str:
    runs = f"{'Run' if len(known) == 1 else 'Runs'} {', '.join(spend.run for spend in known)}"
    over_all = total([*known, own])
    if over_all.epsilon is None:
        return f"{runs} may have read the same records, and with a run that protects nothing they are not."
    delta = f"delta = {over_all.delta:.6g}" if over_all.delta else "pure"
    promise = f"over all runs each record is protected with epsilon = {as_text(over_all.epsilon)} ({delta})"
    if over_all.epsilon == max(spend.epsilon or 0 for spend in [*known, own]):
        return f"{runs} learnt from other records: {promise}."
    return f"{runs} learnt from some of the same records: {promise}."


def _of_word(word: Word, spent: int) -> str:
    before = f"By its operator's word {spent} rounds were charged in earlier runs"
    if word == "end":
        return f"{before}, and none of their records is read again."
    return f"{before}, and their records are read again: what those runs cost a record adds to its epsilon."
