"""What an owner promises to the owner of a record in its set: one value, and the sentence made of it."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from nodes.decimals import as_text
from nodes.privacy.query import QueryMechanism


@dataclass(frozen=True, slots=True)
class AnswerGuarantee:
    """The guarantee of all answers together. `nodes.privacy.query` has the proof.

    Neighbours differ in one record, which is replaced. `epsilon` and `delta` hold for a record that is in up
    to `sharing` owners' sets, at the largest epsilon and delta of these owners.
    """

    adjacency: ClassVar[Literal["event"]] = "event"

    mechanism: str
    epsilon: Fraction
    delta: float
    queries: int
    records: int
    sharing: int
    simulated: bool

    @classmethod
    def of(cls, made: QueryMechanism) -> "AnswerGuarantee":
        """Return the guarantee of an owner's mechanism."""
        return cls(
            made.name, made.epsilon, made.delta, made.queries, made.records, made.sharing, made.simulated
        )

    @property
    def protects(self) -> bool:
        """Whether anything is protected."""
        return not self.simulated

    def sentence(self, owner: str) -> str:
        """Return the guarantee of the owner in words, or that there is none."""
        if self.simulated:
            return (
                f"Nothing in owner {owner}'s set is protected: the noise of mechanism {self.mechanism} is "
                f"simulated (epsilon = {as_text(self.epsilon)} in size only); whoever has the seed can "
                f"subtract it."
            )
        strength = "pure" if self.delta == 0 else f"delta = {self.delta!r}"
        return (
            f"Each record of owner {owner}'s set is protected with epsilon = {as_text(self.epsilon)} "
            f"({strength}), for all {self.queries:,} answers together, against everyone on the mesh broker, "
            f"the learner and all other owners; that the set holds {self.records:,} records is public: one "
            f"is replaced, none added or removed; {self._in_sets()}; a fact in k records is protected at "
            f"k epsilon{self._group_delta()}."
        )

    def _in_sets(self) -> str:
        if self.sharing == 1:
            return "it holds if each record is in one owner's set alone, which sharing says and nobody checks"
        return (
            f"it holds if each record is in at most {self.sharing} owners' sets, which sharing says and "
            f"nobody checks, and for one in several with the largest of their "
            f"epsilons{' and deltas' if self.delta else ''}"
        )

    def _group_delta(self) -> str:
        return "" if self.delta == 0 else ", delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large"
