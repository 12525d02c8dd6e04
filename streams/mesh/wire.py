"""The wire of a collaboration: the names of its topics, and the messages that a reader of each accepts."""

from dataclasses import dataclass
from functools import cached_property

from nodes.collaboration.messages import Query, Response
from nodes.collaboration.steps import Averaged
from streams.codec import Expected, decode_query, decode_response, envelope
from streams.codec.envelope import LARGEST, Envelope
from streams.codec.topics import MeshTopics
from streams.mesh.collaboration import Collaboration


@dataclass(frozen=True, eq=False)
class Wire:
    """What the learner and the owners of one collaboration say to one another, and where.

    `process`: the envelope of one process, which also signs (None: of who only reads).
    """

    whole: Collaboration
    process: Envelope | None = None

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
    def envelope(self) -> Envelope:
        """How messages are signed, and by whom they may be."""
        return self.whole.envelope if self.process is None else self.process

    @property
    def signature(self) -> int:
        """The most bytes that a signature adds to a message; 0 where they are not signed."""
        return envelope.OVERHEAD if self.whole.envelope.signs else 0

    def query(self, value: bytes) -> Query:
        """Return the query in a record of the learner. Raises Refused."""
        return decode_query(self.envelope.of_node(value, self.queries.source), self.queries)

    def response(self, owner: str, value: bytes) -> Response:
        """Return the response in a record of an owner. Raises Refused."""
        return decode_response(self.envelope.of_node(value, owner), self.responses[owner])

    @property
    def _reach(self) -> float:
        step = self.whole.step
        return step.constraint.reach * (1 + 1e-9) if isinstance(step, Averaged) else LARGEST

    def _expected(self, source: str, bound: float) -> Expected:
        settings = self.whole.settings
        return Expected(settings.run, source, self.whole.digest, settings.dimension, min(bound, LARGEST))
