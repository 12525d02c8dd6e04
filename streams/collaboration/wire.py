"""Resolves the shared part of a collaboration: makes each object that the settings describe, once.

The module also has the encoding of its messages, and the checks with which each topic's reader accepts them.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from nodes.accounting.guarantee import Price
from nodes.checks import as_text
from nodes.collaboration.messages import Query, Response
from nodes.collaboration.owner import AnswerGuarantee
from nodes.collaboration.steps import (
    Averaged,
    QueryStep,
    StronglyConvex,
    Terms,
    Weigh,
    by_noise,
    by_records,
    noise_of,
)
from nodes.losses.losses import Loss
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.mechanism import Sampler
from nodes.privacy.query import QueryMechanism
from streams.codec import Expected, envelope
from streams.codec.envelope import LARGEST, PLAIN, Envelope, Kind, SignedEnvelope
from streams.codec.topics import MeshTopics
from streams.codec.vectors import SIMULATED, opened, packed
from streams.collaboration.settings import CollaborationSettings
from streams.mesh.algorithm import omega, plain_loss
from streams.mesh.settings.keys import public_bytes

_NEARLY_ALL, _NAMED = 0.9, 3
"""Of the noise's variance: the fewest owners with so much of it are named, up to that many."""


@dataclass(frozen=True, eq=False)
class Collaboration:
    """A collaboration: makes each object on first use, and keeps it.

    Everything here raises ValueError if the settings, each right by itself, do not fit together.
    """

    settings: CollaborationSettings
    _mechanisms: dict[str, QueryMechanism] = field(default_factory=dict, init=False, repr=False)

    @property
    def cautions(self) -> list[str]:
        """A line for each setting that is valid but probably unintended: a delta that lets records show."""
        lines = list[str]()
        for name, terms in self.settings.owners.items():
            leaks = (terms.delta or 0.0) * terms.records
            if leaks >= 1:
                product = f"{terms.delta!r} times {terms.records:,} records is {leaks:.3g}"
                harm = "a mechanism that publishes so many of them whole has that delta too"
                least = f"should be well below 1/records, {1 / terms.records:.1g}"
                lines.append(f"mesh.owners.{name}.delta: {product}: {harm}; {least}")
        return lines

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are equal iff the settings that all must share are equal."""
        return self.settings.digest()

    @cached_property
    def envelope(self) -> Envelope:
        """How messages are signed, and by whom they may be: for readers, as it signs nothing."""
        settings = self.settings
        if settings.signatures == "none":
            return PLAIN
        keys = {settings.learner: settings.learner_key}
        keys |= {name: terms.key for name, terms in settings.owners.items()}
        public = {name: public_bytes(key) for name, key in keys.items() if key}
        return SignedEnvelope(settings.name, settings.run, self.digest, public, {})

    @cached_property
    def step(self) -> QueryStep:
        """How theta moves."""
        algorithm, queries, eta = self.settings.algorithm, self.settings.queries, self.settings.regulariser
        if algorithm.name == "strongly-convex":
            return StronglyConvex(self.settings.dimension, queries, algorithm.rho or 0.0, eta)
        if self.settings.constraint is None:
            raise ValueError("constraint is missing: averaged needs one")
        within = omega(self.settings.constraint, self.settings.dimension)
        return Averaged(within, queries, algorithm.step or 0.0, eta)

    @cached_property
    def loss(self) -> Loss:
        """g_2, of one record."""
        return plain_loss(self.settings.loss)

    @cached_property
    def records(self) -> dict[str, int]:
        """n_l by owner, in the order of the owners' names."""
        return {name: self.settings.owners[name].records for name in sorted(self.settings.owners)}

    @cached_property
    def terms(self) -> dict[str, Terms]:
        """n_l and the noise of the owner's answers, by owner in the order of their names."""
        return {name: Terms(n, self.mechanism(name).noise_deviation) for name, n in self.records.items()}

    @cached_property
    def weigh(self) -> Weigh:
        """The influence of an owner of such terms: its weight among others, up to a common factor."""
        if self.settings.weights == "records":
            return by_records
        return self._by_noise

    @cached_property
    def influence(self) -> dict[str, float]:
        """The owners' influence, in the order of their names."""
        return {name: self.weigh(terms) for name, terms in self.terms.items()}

    @property
    def shares(self) -> dict[str, tuple[float, float]]:
        """Each owner's share of all records, and of the model where all answer."""
        records, influence = sum(self.records.values()), sum(self.influence.values())
        return {name: (n / records, self.influence[name] / influence) for name, n in self.records.items()}

    def noise_length(self, weigh: Weigh) -> float:
        """Return the length of the weighted answer's noise over Xi, the longest that its signal can be."""
        settings = self.settings
        noise = noise_of(self.terms.values(), weigh)
        return float(settings.dimension**0.5 * noise / settings.gradient_bound)

    @property
    def noise_lengths(self) -> dict[str, float]:
        """`noise_length` by each form of `weights`, that of the settings first."""
        lengths = {"records": self.noise_length(by_records), "noise": self.noise_length(self._by_noise)}
        return dict(sorted(lengths.items(), key=lambda form: form[0] != self.settings.weights))

    @property
    def _by_noise(self) -> Weigh:
        return by_noise(self.settings.dimension, self.settings.gradient_bound)

    @property
    def dominated(self) -> list[str]:
        """A line where noise is more than what few records cost, and weights by noise have less than half."""
        length, other_length = self.noise_lengths.values()
        few = sum(self.records.values()) ** -0.5
        if self.settings.weights == "noise" or length < max(few, 2 * other_length):
            return []
        variances = {name: (terms.records * terms.deviation) ** 2 for name, terms in self.terms.items()}
        loudest, rest = list[str](), sum(variances.values())
        while rest > (1 - _NEARLY_ALL) * sum(variances.values()):
            loudest.append(max(variances.keys() - loudest, key=lambda name: (variances[name], name)))
            rest -= variances[loudest[-1]]
        names = ", ".join(sorted(loudest)[:_NAMED]) + (" and others" if len(loudest) > _NAMED else "")
        clip, fewer = "as long as the mean gradient can be", f"with weights: noise {other_length:.3g} times"
        share = f"nearly all of the noise is that of {names}: of all answers it is {length:.3g} times {clip}"
        must = f"Set that, leave {names} out, or raise the epsilon there"
        return [f"mesh.weights: records: {share}, {fewer}. {must}"]

    def sampler(self, owner: str) -> Sampler:
        """Return the sampler of an owner's noise."""
        seed = self.settings.noise.simulated
        return ExactSampler() if seed is None else SimulatedSampler(seed, owner)

    def mechanism(self, owner: str) -> QueryMechanism:
        """Return the owner's mechanism."""
        if owner not in self._mechanisms:
            terms, settings = self.settings.owners[owner], self.settings
            self._mechanisms[owner] = QueryMechanism(
                terms.mechanism,
                settings.gradient_bound,
                terms.epsilon,
                terms.delta or 0.0,
                settings.queries,
                settings.sharing,
                terms.records,
                settings.dimension,
                self.sampler(owner),
            )
        return self._mechanisms[owner]

    def guarantee(self, owner: str) -> AnswerGuarantee:
        """Return what the owner promises to the owner of a record in its set."""
        return AnswerGuarantee.of(self.mechanism(owner))

    def price(self, owner: str) -> Price:
        """Return the price of all answers of an owner, for a record that is in up to `sharing` sets."""
        mesh, terms = self.settings, self.settings.owners[owner]
        settings = {
            "mechanism": terms.mechanism,
            "epsilon": as_text(terms.epsilon),
            "gradient_bound": repr(mesh.gradient_bound),
            "queries": str(mesh.queries),
            "records": str(terms.records),
            "sharing": str(mesh.sharing),
        }
        protects = self.guarantee(owner).protects
        if not protects:
            settings["noise"] = "simulated"
        return Price(terms.epsilon if protects else None, terms.delta or 0.0, 0.0, tuple(settings.items()))


# Queries and responses in bytes (`streams.codec.vectors` has their common form).

FINAL = 1


def encode_query(query: Query, digest: bytes) -> bytes:
    """Return the bytes of a query. Raises ValueError for a bad number, id or digest.

    version u8, kind u8, flags u8 (1 final), digest 16, instance 16, number u64, run and learner (u8
    length, ASCII), parameters float64 (d,).
    """
    ids = query.run, query.learner, query.instance
    return packed(Kind.QUERY, FINAL if query.final else 0, ids, query.number, query.parameters, digest)


@lru_cache(maxsize=64)  # the owners of one process share the decoding
def decode_query(data: bytes, expected: Expected) -> Query:
    """Return the query in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, number, parameters = opened(data, Kind.QUERY, FINAL, expected)
    return Query(expected.run, expected.source, instance, number, parameters, bool(flags & FINAL))


def encode_response(response: Response, digest: bytes) -> bytes:
    """Return the bytes of a response. Raises ValueError for a bad number, id or digest.

    version u8, kind u8, flags u8 (2 simulated), digest 16, instance 16, query u64, run and owner (u8
    length, ASCII), response float64 (d,).
    """
    ids = response.run, response.owner, response.instance
    flags = SIMULATED if response.simulated else 0
    return packed(Kind.RESPONSE, flags, ids, response.query, response.response, digest)


@lru_cache(maxsize=64)
def decode_response(data: bytes, expected: Expected) -> Response:
    """Return the response in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, number, values = opened(data, Kind.RESPONSE, SIMULATED, expected)
    return Response(expected.run, expected.source, instance, number, bool(flags & SIMULATED), values)


# The wire of a collaboration: the names of its topics, and the messages that a reader of each accepts.


@dataclass(frozen=True, eq=False)
class Wire:
    """The topics and messages of one collaboration's learner and owners.

    `process`: the envelope of one process, which also signs (None for a process that only reads).
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
