"""What earlier runs over the same records do to a guarantee, in words that follow it."""

from dataclasses import dataclass

from nodes.decimals import as_text, up_to_digits
from nodes.privacy.spends import Spend, total


@dataclass(frozen=True, slots=True)
class Reuse:
    """Earlier runs over one node's data, as its state folder knows them, and what others say of the rest.

    Attributes
    ----------
    earlier : tuple of Spend
        What the state folder knows of other runs.
    own : Spend
        This run's.
    """

    earlier: tuple[Spend, ...]
    own: Spend

    def sentence(self) -> str:
        """Return what is to be added to the guarantee; nothing where this is the first run."""
        known = [spend for spend in self.earlier if spend.charged or spend.open]
        said = [_of_runs(known, self.own)] if known else []
        said += [_of_word(spend, self.own) for spend in [*known, self.own] if spend.word is not None]
        if self.own.by_plans:
            said.append("What this run had charged before its journal begins is the scheduler's count.")
        return " ".join(said)


def _of_runs(known: list[Spend], own: Spend) -> str:
    runs = f"{'Run' if len(known) == 1 else 'Runs'} {', '.join(spend.run for spend in known)}"
    over_all = total([*known, own])
    if over_all.epsilon is None:
        return (
            f"{runs} may have read the same records, and one of them protects nothing that is known here: "
            f"over all runs nothing is known to be protected."
        )
    delta = f"delta = {up_to_digits(over_all.delta)!r}" if over_all.delta else "pure"
    promise = f"over all runs each record is protected with epsilon = {as_text(over_all.epsilon)} ({delta})"
    if over_all.epsilon == max(spend.epsilon or 0 for spend in [*known, own]):
        return f"{runs} learnt from other records: {promise}."
    return f"{runs} learnt from some of the same records: {promise}."


def _of_word(spend: Spend, own: Spend) -> str:
    when = "in earlier runs" if spend is own else f"before run {spend.run}"
    before = f"By its operator's word {spend.before} rounds were charged {when}"
    if spend.word == own.word == "end":
        return f"{before}, and none of their records is read again."
    again = "are" if spend is own else "may be"
    return (
        f"{before}, and their records {again} read again: what those runs cost a record adds to its epsilon."
    )
