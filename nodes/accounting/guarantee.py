"""The guarantee to the owner of a record: one value, from which every sentence about it is made."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from nodes.checks import at_least_one
from nodes.decimals import as_text, up_to_digits

_PUBLIC = {
    "count": "arrival times, keys, timestamps and counts are public (count slots)",
    "time": (
        "a record may also be added or removed, and one that is replaced keeps its timestamp (time slots): "
        "moved to another slot {moved}; one whose bytes change may move to another node, where take splits a "
        "file, and costs in both"
    ),
}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The event-level guarantee of a node's whole stream of releases.

    Attributes
    ----------
    mechanism : str
        The mechanism's name, for people.
    epsilon : Fraction or None
        That of one release, and of the whole stream; None: the mechanism protects nothing.
    delta : float
        0 for a pure guarantee.
    slots : {"count", "time"}
        How records get into slots. `count`: neighbours differ in the value of one record. `time`: they differ
        in one record, added, removed, or replaced at the same timestamp.
    batch_size : int
        The number of records of a slot, fixed and public.
    simulated : bool
        Whether the noise is seeded numpy noise, so that nothing is protected.
    trusted_broker : bool
        Whether the mesh broker also carries the data, so that it is no adversary.
    correlated : bool
        Whether noise is correlated over rounds: slots share it, and the proof is for real arithmetic.
    shift : float
        The public seconds by which the time of every record is moved, with slots by time.
    """

    adjacency: ClassVar[Literal["event"]] = "event"

    mechanism: str
    epsilon: Fraction | None
    delta: float = 0.0
    slots: Literal["count", "time"] = "count"
    batch_size: int = 1
    simulated: bool = False
    trusted_broker: bool = False
    correlated: bool = False
    shift: float = 0.0

    def __post_init__(self) -> None:
        at_least_one("batch_size", self.batch_size)
        if self.epsilon is not None and self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}: must be above 0")
        if not 0.0 <= self.delta < 1.0:
            raise ValueError(f"delta is {self.delta}: must be at least 0 and below 1")
        if self.slots not in _PUBLIC:
            raise ValueError(f"slots is {self.slots!r}: must be one of {', '.join(_PUBLIC)}")

    @property
    def protects(self) -> bool:
        """Whether anything is protected."""
        return self.epsilon is not None and not self.simulated

    def sentence(self, node: str) -> str:
        """Return the guarantee of `node` in words, or that there is none."""
        if self.epsilon is None:
            return (
                f"Nothing in node {node}'s stream is protected: with mechanism {self.mechanism} its releases "
                f"show its records to {self._adversary()}."
            )
        if self.simulated:
            return (
                f"Nothing in node {node}'s stream is protected: the noise of mechanism {self.mechanism} is "
                f"simulated (epsilon = {as_text(self.epsilon)} in size only); whoever has the seed, which "
                f"{self._adversary()} may have, can subtract it."
            )
        strength = "pure" if self.delta == 0 else f"delta = {self.delta!r}"
        public = _PUBLIC[self.slots].format(moved=self._moved(self.epsilon))
        if self.shift:
            public += (
                f"; the time of every record is moved by the same {self.shift:,.15g} s, which are public"
            )
        reals = ", proved for real arithmetic" if self.correlated else ""
        more = "" if self.delta == 0 else ", delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large"
        return (
            f"Each record of node {node}'s stream is protected with epsilon = {as_text(self.epsilon)} "
            f"({strength}{reals}), for the whole stream, against {self._adversary()}; {public}; "
            f"a fact in k records or nodes is protected at k epsilon{more}."
        )

    def _moved(self, epsilon: Fraction) -> str:
        """Return what protects a record that is moved to another slot.

        Two releases change: they compose (Dwork, Roth 2014, theorem 3.16) if they share no noise. Otherwise
        the record is removed, then added elsewhere: P <= e^epsilon (e^epsilon P'' + delta) + delta.
        """
        delta = 2 * self.delta
        if self.correlated:
            delta = up_to_digits(self.delta * (1 + math.exp(min(float(epsilon), 700.0))))
        if delta >= 1:
            return "nothing is proved of it"
        return f"it is protected at epsilon = {as_text(2 * epsilon)}{f', delta = {delta!r}' if delta else ''}"

    def _adversary(self) -> str:
        if self.trusted_broker:
            return "all other nodes and the scheduler (the broker also carries the data, and is trusted)"
        return "everyone on the mesh broker, all other nodes and the scheduler"
