"""Checks what is published: one value a round, out of the journal, each record once, draws within charges."""

from collections import Counter

from nodes.machine.journal import JournalRecord, ReleaseMessage
from nodes.machine.slots import Place
from streams.simulation.checks.facts import Facts
from streams.simulation.checks.life import Life
from streams.simulation.history import Violation

Made = tuple[str, str, int, bytes]
"""A release: node, instance, round, value."""


class ValueChecks:
    """Follows every release from the journal to the edges."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._published: dict[tuple[str, str, int], dict[bytes, bool]] = {}
        self._split: dict[str, set[tuple[str, int]]] = {}
        self._drawn: Counter[str] = Counter()
        self._made: dict[Made, tuple[Place, ...]] = {}
        self._used: dict[tuple[str, Place], Made] = {}
        self._shared: dict[str, set[tuple[str, int]]] = {}

    def journalled(self, name: str, life: Life, record: JournalRecord) -> None:
        """Take a release that is durable, and the records that went into it."""
        places = () if record.exact else life.places
        self._made[name, life.instance, record.round, record.release.tobytes()] = places

    def sending(self, journal: tuple[JournalRecord, ...], instance: str, message: ReleaseMessage) -> None:
        """Check that a release that a process sends is in its journal."""
        for record in journal:
            if record.round == message.round and instance == message.instance:
                if record.release.tobytes() == message.release.tobytes():
                    return
                raise Violation(
                    f"{message.source} sends another value for round {message.round} than it keeps"
                )
        raise Violation(
            f"{message.source} sends a release for round {message.round} before its journal has it"
        )

    def appended(self, message: ReleaseMessage, charged: int) -> None:
        """Take a release that stands on an edge; `charged`: the charged rounds that its node keeps."""
        name = message.source
        if name in self._facts.liars or self._facts.is_forgotten(name):
            return
        value, round = message.release.tobytes(), (message.instance, message.round)
        known = self._published.setdefault((name, *round), {})
        if value in known:
            return
        known[value] = message.exact
        if len(known) > 1:
            self._split.setdefault(name, set()).add(round)
            if len(self._split[name]) > self._facts.clones[name]:
                raise Violation(f"{name} has published two values for round {message.round}")
        self._use(name, (name, *round, value))
        self._drawn[name] += not message.exact
        uncounted = self._facts.counts_lost and name in self._facts.rolled_back
        if self._drawn[name] > charged + self._facts.clones[name] and not uncounted:
            raise Violation(f"{name} has drawn {self._drawn[name]} times, and charged {charged} rounds")

    def _use(self, name: str, made: Made) -> None:
        """Check that no record of the release is in another one; a copied journal may do it for one round."""
        for place in self._made.get(made, ()):
            other = self._used.setdefault((name, place), made)
            if other != made:
                self._shared.setdefault(name, set()).add(made[1:3])
                if len(self._shared[name]) > self._facts.clones[name]:
                    raise Violation(
                        f"record {place[1]} of {name} is in its releases for rounds {other[2]} and {made[2]}"
                    )
