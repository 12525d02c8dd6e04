"""What one node's releases cost, as it was when its journal began: today's file never speaks for the past."""

from fractions import Fraction
from typing import NamedTuple


class Changed(NamedTuple):
    """A setting of the price that is another now."""

    key: str
    was: str
    now: str


class Price(NamedTuple):
    """The price of a node's releases in one run; it cannot change while the run goes on.

    Attributes
    ----------
    epsilon : Fraction or None
        Of a record, for the whole stream (event level); None: nothing is protected.
    delta : float
        Of a record.
    stream_delta : float
        At which the whole stream's epsilon holds.
    settings : tuple of (key, value)
        What makes the price, as text: mechanism, epsilon or schedule, delta, bound, norm, bands, h.
    """

    epsilon: Fraction | None
    delta: float = 0.0
    stream_delta: float = 0.0
    settings: tuple[tuple[str, str], ...] = ()

    def changed(self, now: "Price") -> Changed | None:
        """Return the first setting that is another in `now`; None where the price is the same."""
        was, new = dict(self.settings), dict(now.settings)
        for key in sorted(was.keys() | new.keys(), key=[*new, *was].index):
            if was.get(key) != new.get(key):
                return Changed(key, was.get(key, "none"), new.get(key, "none"))
        return None if self.agrees(now.epsilon, now.delta) else Changed("epsilon", *_both(self, now))

    def agrees(self, epsilon: Fraction | None, delta: float) -> bool:
        """Whether a record pays so much."""
        return (self.epsilon, self.delta) == (epsilon, delta)


def _both(was: Price, now: Price) -> tuple[str, str]:
    return str(was.epsilon), str(now.epsilon)
