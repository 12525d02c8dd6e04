"""The wire of a collaboration: the names of its topics, and the messages that a reader of each accepts."""

from dataclasses import dataclass
from functools import cached_property

from nodes.collaboration.steps import Averaged
from streams.codec import Expected
from streams.codec.fields import LARGEST
from streams.codec.topics import MeshTopics
from streams.mesh.collaboration import Collaboration


@dataclass(frozen=True, eq=False)
class Wire:
    """What the learner and the owners of one collaboration say to one another, and where."""

    whole: Collaboration

    @cached_property
    def topics(self) -> MeshTopics:
        """The names of its topics."""
        settings = self.whole.settings
        return MeshTopics(settings.name, settings.run)

    @cached_property
    def queries(self) -> Expected:
        """The learner's queries: theta stays in the constraint, if there is one."""
        return self._expected(self.whole.settings.learner, self._reach)

    @cached_property
    def responses(self) -> dict[str, Expected]:
        """Each owner's responses, within the bound that its noise is held in."""
        names = self.whole.settings.owners
        return {name: self._expected(name, self.whole.mechanism(name).response_bound) for name in names}

    @property
    def _reach(self) -> float:
        step = self.whole.step
        return step.constraint.reach * (1 + 1e-9) if isinstance(step, Averaged) else LARGEST

    def _expected(self, source: str, bound: float) -> Expected:
        settings = self.whole.settings
        return Expected(settings.run, source, self.whole.digest, settings.dimension, min(bound, LARGEST))
