"""What earlier runs over the same records do to a guarantee, in words that follow it."""

from collections.abc import Collection
from dataclasses import dataclass

from nodes.decimals import as_text, up_to_digits
from nodes.privacy.spends import Spend, Total, total


@dataclass(frozen=True, slots=True)
class Reuse:
    """Earlier lives and runs over one node's data, and what others say of the rest.

    Attributes
    ----------
    earlier : tuple of Spend
        What is known of other runs, and of earlier lives in this one.
    own : Spend
        This life's.
    by : str
        Who knows: the state folder, unless another is named.
    """

    earlier: tuple[Spend, ...]
    own: Spend
    by: str = "this folder"

    def sentence(self) -> str:
        """Return what is to be added to the guarantee; nothing where this is the first run."""
        known = self._known()
        said = [_of_runs(known, self.own, self.by)] if known else []
        said += [_of_word(spend, self.own) for spend in [*known, self.own] if spend.word is not None]
        if self.own.by_plans:
            said.append("What this run had charged before its journal begins is the scheduler's count.")
        return " ".join(said)

    @property
    def total(self) -> Total:
        """What all have spent together, at both levels; None also where more is added by somebody's word."""
        found = total([*self._known(), self.own])
        more = any(_adds(spend, self.own) for spend in [*self._known(), self.own])
        return found._replace(epsilon=None) if more else found

    def _known(self) -> list[Spend]:
        return [spend for spend in self.earlier if spend.charged or spend.open]


def reuse_of(spends: Collection[Spend], run: str, by: str = "this folder") -> Reuse | None:
    """Return what others than the newest life of `run` do to its guarantee; None where it has none here."""
    own = next((spend for spend in reversed([*spends]) if spend.run == run), None)
    return own and Reuse(tuple(spend for spend in spends if spend is not own), own, by)


def _adds(spend: Spend, own: Spend) -> bool:
    """Whether the records of runs that nobody here knows of may be read again."""
    return spend.word is not None and not spend.word == own.word == "end"


def _of_runs(known: list[Spend], own: Spend, by: str) -> str:
    names = [f"{spend.run} (an earlier life)" if spend.run == own.run else spend.run for spend in known]
    names = list(dict.fromkeys(names))
    runs = f"{'Run' if len(names) == 1 else 'Runs'} {', '.join(names)}"
    over_all = total([*known, own])
    if over_all.epsilon is None:
        return (
            f"{runs} may have read the same records, and one of them protects nothing that is known here: "
            f"over all runs nothing is known to be protected."
        )
    delta = f"delta = {up_to_digits(over_all.delta)!r}" if over_all.delta else "pure"
    epsilon = as_text(over_all.epsilon)
    promise = f"over all runs each record is protected with epsilon = {epsilon} ({delta}), by {by}"
    if over_all.epsilon == max(spend.epsilon or 0 for spend in [*known, own]):
        return f"{runs} learnt from other records: {promise}."
    return f"{runs} learnt from some of the same records: {promise}."


def _of_word(spend: Spend, own: Spend) -> str:
    when = "in earlier runs" if spend is own else f"before run {spend.run}"
    before = f"By its operator's word {spend.before} rounds were charged {when}"
    if not _adds(spend, own):
        return f"{before}, and none of their records is read again."
    again = "are" if spend is own else "may be"
    return (
        f"{before}, and their records {again} read again: what those runs cost a record adds to its epsilon."
    )
