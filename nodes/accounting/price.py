"""The price of a node's releases, as set when its journal began, whatever today's mesh file says."""

from fractions import Fraction
from typing import NamedTuple

from nodes.decimals import as_text


class Changed(NamedTuple):
    """A setting of the price that has changed."""

    key: str
    was: str
    now: str

    @property
    def words(self) -> str:
        """The error for a run that has already charged."""
        return f"{self.key} is {self.was}, not {self.now}: a node's own privacy settings need a new run"


class Price(NamedTuple):
    """The price of a node's releases in one run; it cannot change while the run goes on.

    Attributes
    ----------
    epsilon : Fraction or None
        That of a record, for the whole stream (event level); None: nothing is protected.
    delta : float
        That of a record.
    stream_delta : float
        The delta at which the stream-level epsilon holds.
    settings : tuple of (key, value)
        The settings behind the price, as text: mechanism, epsilon or schedule, delta, bound, norm, bands, h.
    """

    epsilon: Fraction | None
    delta: float = 0.0
    stream_delta: float = 0.0
    settings: tuple[tuple[str, str], ...] = ()

    def changed(self, now: "Price") -> Changed | None:
        """Return the first setting that differs in `now`; None if the price is the same.

        A price without settings is compared by its epsilon and delta alone.
        """
        before, new = dict(self.settings), dict(now.settings)
        keys = dict.fromkeys([*before, *new]) if before else {}
        pairs = [(key, before.get(key, "none"), new.get(key, "none")) for key in keys]
        pairs += [
            ("epsilon", _text(self.epsilon), _text(now.epsilon)),
            ("delta", repr(self.delta), repr(now.delta)),
        ]
        return next((Changed(*pair) for pair in pairs if pair[1] != pair[2]), None)


def _text(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else as_text(epsilon)
