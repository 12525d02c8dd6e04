"""The guarantee to the owner of a record, its price, and the ledger of the charged rounds.

All sentences about a node's guarantee are made from one value, `Guarantee`.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, Protocol

from nodes.accounting.releases import Composition, GrowingEpsilon, Sum
from nodes.checks import OutOfRange, as_text, at_least_one, rounded_up, up_to_digits

_PUBLIC = {
    "count": "arrival times, keys, timestamps and counts are public (count slots)",
    "time": (
        "a record may also be added or removed, and one that is replaced keeps its timestamp (time slots): "
        "moved to another slot {moved}; one whose bytes change may move to another node, where take splits a "
        "file, and costs in both"
    ),
}
MANY = 100
"""The records of the person for whom a guarantee of single records gives a number."""
_LARGE = 700  # e^x is a float up to here


class RunGuarantee(Protocol):
    """The guarantee of one reader of records over one run, in the form of its kind of mesh file."""

    @property
    def protects(self) -> bool:
        """Whether anything is protected."""

    @property
    def adjacency(self) -> Literal["event", "unit"]:
        """What is protected: one record, or all records of a unit."""

    @property
    def epsilon(self) -> Fraction | None:
        """The epsilon of one record over the run; None: records are not protected."""

    @property
    def delta(self) -> float:
        """The delta at which it holds."""

    def sentence(self, name: str, /) -> str:
        """Return the guarantee in words."""


class Wait(NamedTuple):
    """The wait of a record for its label, in seconds, and the topic of the labels.

    `rule`: a sentence in place of the wait, for labels in a file.
    """

    seconds: float
    topic: str
    rule: str | None = None

    @property
    def words(self) -> str:
        """The wait in the largest unit of time of which it is a whole number."""
        sizes = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
        size, unit = next(size for size in sizes if self.seconds % size[0] == 0 or size[0] == 1)
        return f"{self.seconds / size:,g} {unit}"


@dataclass(frozen=True, slots=True)
class Unit:
    """The bound on a unit's records, resolved.

    Attributes
    ----------
    column : str
        The column whose value names the unit.
    records : int
        k, the most rounds of a node that a unit takes part in, with one record in each.
    apart : int
        b: a unit's rounds are exactly this far from each other.
    sharing : int
        The most nodes that hold records of one unit, together within its epsilon.
    rounds : int or None
        T, the last learning round. None: the run has no end, and k is that of any k b rounds in a row.
    """

    column: str
    records: int
    apart: int
    sharing: int = 1
    rounds: int | None = None

    @property
    def span(self) -> str:
        """The rounds of which a unit takes part in `records`, in words."""
        if self.rounds is None:
            return f"any {self.records * self.apart:,} rounds in a row"
        return f"{self.rounds:,} round{'s' * (self.rounds > 1)}"

    @property
    def stream(self) -> str:
        """The part of the stream for which a guarantee holds, in words."""
        return "the whole stream" if self.rounds is not None else f"what is said in {self.span}"

    def own_delta(self, delta: float) -> float:
        """Return the share of `delta` of one of the `sharing` nodes, rounded down."""
        return delta if self.sharing == 1 else math.nextafter(delta / self.sharing, 0.0)

    def dearest(self, growing: GrowingEpsilon) -> Fraction:
        """Return the sum of the k largest epsilons of a growing schedule, of rounds `apart`."""
        last = growing.rounds if self.rounds is None else min(growing.rounds, self.rounds)
        rounds = [last - k * self.apart for k in range(self.records)]
        return sum((growing.epsilon_at(round) for round in rounds if round >= 1), Fraction(0))


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of a node's whole stream of releases: to a record (event level), or to a unit.

    Attributes
    ----------
    mechanism : str
        The mechanism's name, for people.
    epsilon : Fraction or None
        That of a record, or of a unit at all its nodes, for the whole stream; None: nothing is protected.
    delta : float
        0 for a pure guarantee.
    slots : {"count", "time"}
        How records are assigned to slots. `count`: neighbouring streams differ in the value of one record.
        `time`: they differ in one record, which is added, removed, or replaced at the same timestamp.
    batch_size : int
        The number of records of a slot, fixed and public.
    simulated : bool
        Whether the noise is seeded numpy noise, so that nothing is protected.
    trusted_broker : bool
        Whether the mesh broker also carries the data. Then it does not count as an adversary.
    correlated : bool
        Whether noise is correlated over rounds. Then slots share noise, and the proof is for real arithmetic.
    shift : float
        The public seconds by which the time of every record is moved, with slots by time.
    keyed : tuple of str
        The columns that are made of a record's key, which is public with slots by count.
    wait : Wait or None
        The wait of records whose labels come later; None: each record has its own label.
    unit : Unit or None
        The bound on the records of a unit; None: each record is protected by itself.
    """

    mechanism: str
    epsilon: Fraction | None
    delta: float = 0.0
    slots: Literal["count", "time"] = "count"
    batch_size: int = 1
    simulated: bool = False
    trusted_broker: bool = False
    correlated: bool = False
    shift: float = 0.0
    keyed: tuple[str, ...] = ()
    wait: Wait | None = None
    unit: Unit | None = None

    def __post_init__(self) -> None:
        at_least_one("batch_size", self.batch_size)
        if self.epsilon is not None and self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}: must be above 0")
        if not 0.0 <= self.delta < 1.0:
            raise ValueError(f"delta is {self.delta}: must be at least 0 and below 1")
        if self.slots not in _PUBLIC:
            raise ValueError(f"slots is {self.slots!r}: must be one of {', '.join(_PUBLIC)}")

    @property
    def adjacency(self) -> Literal["event", "unit"]:
        """What is protected: one record, or all records of a unit."""
        return "event" if self.unit is None else "unit"

    @property
    def protected(self) -> str:
        """What `epsilon` is of: `record`, or the name of the units' column."""
        return "record" if self.unit is None else self.unit.column

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
        if self.keyed and self.slots == "count":
            public += f", so what is made of the key ({', '.join(self.keyed)}) is not protected"
        if self.shift:
            public += (
                f"; the time of every record is moved by the same {self.shift:,.15g} s, which are public"
            )
        reals = ", proved for real arithmetic" if self.correlated else ""
        delta_text = "" if self.delta == 0 else ", delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large"
        subject, labelled, facts = f"Each record of node {node}'s stream", "", "k records or nodes"
        stream, person = "for the whole stream", self._of_person(self.epsilon)
        if self.unit is not None:
            person = ""
            subject, public = self._of_unit(self.unit, node, public)
            facts, stream = f"the records of k of them ({self.unit.column})", f"for {self.unit.stream}"
        if self.wait is not None:
            subject += " together with its labels"
            labelled = "a label of k records is protected at k epsilon; "
            waits = f"every record waits {self.wait.words} for its labels on {self.wait.topic}"
            public += f"; {self.wait.rule or waits}"
        return (
            f"{subject} is protected with epsilon = {as_text(self.epsilon)} "
            f"({strength}{reals}), {stream}, against {self._adversary()}; {public}; "
            f"{labelled}a fact in {facts} is protected at k epsilon{delta_text}{person}."
        )

    def _of_person(self, epsilon: Fraction) -> str:
        """Return what a person with many records gets where no unit bounds them."""
        total, delta_text = MANY * epsilon, ""
        if self.delta:
            times = math.expm1(total) / math.expm1(epsilon) if total < _LARGE else math.inf
            delta = up_to_digits(self.delta * times) if self.delta * times < 1 else 1.0
            delta_text = f", delta = {delta!r}" if delta < 1 else ", where delta is 1 and nothing is proved"
        person = "a person with k records is protected at k epsilon too, as no unit (privacy.unit) is named"
        return f"; {person}: one with {MANY} at epsilon = {as_text(total)}{delta_text}"

    def _of_unit(self, unit: Unit, node: str, public: str) -> tuple[str, str]:
        """Return what is protected, and the bound and what is public of it."""
        beside, times = "", "n epsilon" + (" and n delta" if self.delta else "")
        if unit.sharing > 1:
            beside = f", and at up to {unit.sharing - 1:,} more that share the epsilon,"
            times = f"n/{unit.sharing:,} epsilon" + (f" and n/{unit.sharing:,} delta" if self.delta else "")
        public = public if self.slots == "count" else "arrival times, keys, timestamps and counts are public"
        bound = f"at most {unit.records:,} of {unit.span}, {unit.apart:,} apart, with one record in each"
        rule = (
            f"each {unit.column} takes part in {bound}; which records are of one {unit.column}, and where "
            f"and when they are, is public; whose a record is, is a fact in two of them; what one says at n "
            f"nodes is protected at {times}"
        )
        return f"Everything that one {unit.column}'s records say at node {node}{beside}", f"{rule}; {public}"

    def _moved(self, epsilon: Fraction) -> str:
        """Return the epsilon and delta that protect a record that is moved to another slot.

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


# The price of a node's releases: it is fixed when the journal begins, and later mesh files do not change it.


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
        The epsilon of a record, for the whole stream (event level); None: nothing is protected.
    delta : float
        The delta of a record.
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


# The ledger: the epsilon spent after a number of charged rounds, rounded up, never down.
#
# At event level nothing runs out: the epsilon of one release is that of the whole stream. At stream level
# all `batch_size` records of a slot may change at once, so a release costs batch_size * epsilon, and
# releases compose (`nodes.accounting.releases`).


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one node.

    Attributes
    ----------
    epsilon : Fraction or None
        The epsilon of one release at event level (of a schedule the largest; with a unit and Gaussian noise,
        of its releases together), above 0; None: nothing is protected.
    batch_size : int
        The number of observations of a slot.
    budget : Fraction or None
        The stream-level epsilon that may be spent; None: no limit. Raises ValueError if it does not pay for
        one round, or if nothing is protected.
    composition : Composition or None
        How releases compose; None: the sum of batch_size * epsilon.
    rounds : int or None
        The last round of a schedule of epsilons, or of the bound on a unit's records; None: no end.
    unit_epsilon : Fraction or None
        The epsilon of a unit, over all rounds that it takes part in; None: each record is protected by
        itself.
    last_learning_round : int or None
        The last round in which a node that missed none may learn; None: no end. A node that was away stops in
        the same round.
    """

    epsilon: Fraction | None
    batch_size: int
    budget: Fraction | None = None
    composition: Composition | None = None
    rounds: int | None = None
    unit_epsilon: Fraction | None = None
    last_learning_round: int | None = field(init=False)

    def __post_init__(self) -> None:
        at_least_one("batch_size", self.batch_size)
        if self.epsilon is None:
            if self.budget is not None:
                raise ValueError(
                    f"budget is {as_text(self.budget)}: a mechanism without epsilon cannot keep one"
                )
            object.__setattr__(self, "composition", None)
            object.__setattr__(self, "last_learning_round", None)
            return
        if self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}: must be above 0")
        composition = self.composition or Sum(self.batch_size * self.epsilon)
        object.__setattr__(self, "composition", composition)
        object.__setattr__(self, "last_learning_round", self._last(composition))

    def _last(self, composition: Composition) -> int | None:
        if self.budget is None:
            return self.rounds
        affordable = composition.affordable(self.budget)
        if affordable < 1:
            cost = f"{up_to_digits(composition.spent(1, 1)):.6g}"
            raise OutOfRange("budget", self.budget, f"must be at least {cost}, one round's cost")
        return affordable if self.rounds is None else min(affordable, self.rounds)

    @property
    def delta(self) -> float:
        """The delta at stream level; 0: pure."""
        return self.composition.delta if self.composition else 0.0

    def may_learn(self, round: int, charged: int) -> bool:
        """Return whether `round` may be charged after `charged` charged rounds: spent + next <= budget."""
        last = self.last_learning_round
        return last is None or (round <= last and charged < last)

    def spent(self, charged: int, round: int | None = None) -> float:
        """Return the stream-level epsilon of `charged` rounds; infinite if nothing is protected.

        `round` is the last one stepped; without it the largest of a schedule's epsilons are counted.
        """
        last = self.last_learning_round
        if last is not None and (round is None or round > last):
            round = last
        return self.composition.spent(charged, round) if self.composition else math.inf

    def left(self, charged: int, round: int | None = None) -> float:
        """Return the rest of the budget, rounded down; infinite without a budget."""
        if self.budget is None:
            return math.inf
        spent = self.spent(charged, round)
        return -rounded_up(Fraction(spent) - self.budget) if spent < self.budget else 0.0
