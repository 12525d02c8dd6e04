"""Follows every release from a disk to the edges: what a restart must find, what is published,
and charged.
"""

from collections import Counter
from dataclasses import dataclass, field

from streams.simulation.history import SimulatedHistory, Violation
from streams.simulation.oracle.given import (
    Begun,
    Durable,
    Excuses,
    FloatArray,
    HandedDecision,
    HandedSlot,
    Lost,
    Setup,
)
from streams.simulation.oracle.wire import ReadRelease

Key = tuple[str, str, int, str]
"""(source, target, round, instance)"""
Made = tuple[str, str, int, bytes]
"""A release: (node, instance, round, value)."""


class EdgeValue:
    """A value that was on an edge, and since when."""

    __slots__ = ("bits", "time", "value")

    def __init__(self, release: ReadRelease, time: float) -> None:
        self.bits, self.value, self.time = release.bits, release.value, time


class EdgeLog:
    """The releases of all edges, and what each node has published."""

    def __init__(self, setup: Setup, excuses: Excuses, history: SimulatedHistory) -> None:
        self._setup, self._excuses, self._history = setup, excuses, history
        self.values: dict[Key, list[EdgeValue]] = {}
        self.second: set[tuple[str, str, str]] = set()  # (source, target, instance) of two values
        self._present: dict[str, list[ReadRelease | None]] = {topic: [] for topic in setup.edge_topics}
        self._published: dict[tuple[str, str, int], set[bytes]] = {}
        self._split: dict[str, set[tuple[str, int]]] = {}
        self._noisy: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._origins: dict[Made, tuple[WatchedProcess, float]] = {}  # its process, and durable since
        self._offsets: dict[Made, tuple[int, ...]] = {}
        self._used: dict[tuple[str, int], Made] = {}
        self._shared: dict[str, set[tuple[str, int]]] = {}

    def noisy(self, name: str) -> int:
        """Return how many different noisy releases of a node have been on edges."""
        return self._noisy[name]

    def appended(self, topic: str, release: ReadRelease | None, charged: int) -> None:
        """Handle a record of an edge; `release` is None if it is unreadable.

        `charged` is the largest number of charges in any journal of the source.
        """
        self._present[topic].append(release)
        if release is None:
            return
        for target in self._setup.edge_topics[topic][1]:
            values = self.values.setdefault((release.source, target, release.round, release.instance), [])
            values.append(EdgeValue(release, self._history.now))
            if values[0].bits != release.bits:
                self.second.add((release.source, target, release.instance))
        self._publish(release, charged)

    def forgotten(self, topic: str, count: int) -> None:
        """Record that a topic has lost its last records."""
        if topic in self._present and count:
            del self._present[topic][-count:]

    def present(self, source: str, target: str) -> list[ReadRelease]:
        """Return the readable releases that are on an edge now."""
        topic = self._setup.topics[source, target]
        return [release for release in self._present[topic] if release is not None]

    def may_be_heard(self, key: Key, value: FloatArray) -> bool:
        """Return whether a reader may use this value. It must be the first one on the edge for its round."""
        bits = value.tobytes()
        return any(bits == release.bits for release in self.first(key))

    def first(self, key: Key) -> list[EdgeValue]:
        """Return the values that readers may use: the first one, or all if the edge has lost records."""
        values = self.values.get(key, [])
        return values if self._setup.topics[key[0], key[1]] in self._excuses.forgotten else values[:1]

    def two_valued(self, round: int) -> set[str]:
        """Return the nodes with two values for a round on edges."""
        return {
            name
            for (name, _, made_for), bits in self._published.items()
            if made_for == round and len(bits) > 1
        }

    # -------------------------------------------------------------------------- from journal to edge

    def durable(self, process: "WatchedProcess", record: Durable, offsets: tuple[int, ...]) -> None:
        """Record that a release is in a journal, and the records of the data topic that went into it."""
        origin = process.name, process.begun.instance, record.round, record.value.tobytes()
        self._origins.setdefault(origin, (process, self._history.now))
        self._offsets[origin] = () if record.exact else offsets

    def sending(self, records: dict[int, Durable], instance: str, release: ReadRelease) -> None:
        """Check that a release that a process sends is equal to the one in its journal. Raises Violation."""
        name, round = release.source, release.round
        record = records.get(round)
        if record is None or release.instance != instance:
            raise Violation(f"{name} sends a release for round {round} before its journal has it")
        if record.value.tobytes() != release.bits:
            raise Violation(f"{name} sends another value for round {round} than it keeps")
        if release.exact != record.exact or release.simulated == record.exact:
            raise Violation(f"{name} flags its release for round {round} otherwise than its noise was")

    def _publish(self, release: ReadRelease, charged: int) -> None:
        name, key, excuses = release.source, (release.instance, release.round), self._excuses
        if name in excuses.liars or self.is_unknown(name):
            return
        values, origin = self._published.setdefault((name, *key), set()), (name, *key, release.bits)
        if release.bits in values:
            return
        if values:
            if all(self._was_under_way((name, *key, bits), origin) for bits in values):
                self._under_way[name] += 1
            else:
                self._split.setdefault(name, set()).add(key)
            if len(self._split.get(name, ())) > excuses.clones[name]:
                raise Violation(f"{name} has published two values for round {release.round}")
        values.add(release.bits)
        self._use(name, origin)
        self._noisy[name] += not release.exact
        uncounted = self._setup.topology in excuses.forgotten and name in excuses.rolled_back
        excused = excuses.clones[name] + self._under_way[name]
        if self._noisy[name] > charged + excused and not uncounted:
            raise Violation(f"{name} has drawn {self._noisy[name]} times, and charged {charged} rounds")

    def is_unknown(self, name: str) -> bool:
        """Return whether disk and broker have both lost releases of the node, so that it cannot
        know of them.
        """
        topics = {topic for topic, (source, _) in self._setup.edge_topics.items() if source == name}
        return name in self._excuses.rolled_back and bool(topics & self._excuses.forgotten)

    def _was_under_way(self, one: Made, other: Made) -> bool:
        """Return whether two releases are of two disks, and the newer process could not know the older's
        release.

        That is so if the release was durable when the newer process started, and not on the edges. Releases
        that were on the edges are checked at that process's start.
        """
        if one not in self._origins or other not in self._origins:
            return False
        (older, durable_at), (newer, _) = sorted(
            (self._origins[one], self._origins[other]), key=lambda entry: entry[0].at
        )
        return older.begun.folder != newer.begun.folder and durable_at <= newer.at

    def _use(self, name: str, origin: Made) -> None:
        """Check that no record of this release is in another release.

        A copied journal may use the records of one round again. A process may also use records of releases
        that were being sent when it started.
        """
        for offset in self._offsets.get(origin, ()):
            earlier = self._used.setdefault((name, offset), origin)
            if earlier != origin and not self._was_under_way(earlier, origin):
                self._shared.setdefault(name, set()).add(origin[1:3])
                if len(self._shared[name]) > self._excuses.clones[name]:
                    rounds = f"{earlier[2]} and {origin[2]}"
                    raise Violation(f"record {offset} of {name} is in its releases for rounds {rounds}")


@dataclass(slots=True)
class Disk:
    """A disk and its journal: the records of the newest life, and all charges before that life.

    `kept` is the number of newest records that the journal still has, as it drops older ones.
    """

    instance: str
    carried: int = 0
    records: list[Durable] = field(default_factory=list)
    kept: int = 0

    @property
    def charged(self) -> int:
        """The number of charges of all lives of the journal."""
        return self.records[-1].charged if self.records else self.carried

    def copied(self) -> "Disk":
        """Return a copy of the disk."""
        return Disk(self.instance, self.carried, self.records.copy(), self.kept)


@dataclass(slots=True, eq=False)
class WatchedProcess:
    """A process of a node, and its life according to the journal.

    `records` are by round. `steps`: the rounds stepped since it last joined. `lost`: the sources that it has
    given up and not corrected. `sent`: (topic, round) of its releases. `gradients`: the repeated gradient and
    decision of each step. `scored`: those that are in the regret. `wish`: the round from which it leaves;
    `wish_before`: the same until it was told otherwise, when round `wished_in` was open.
    """

    begun: Begun
    at: float
    records: dict[int, Durable] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    lost: dict[tuple[int, str], Lost] = field(default_factory=dict)
    newest: Durable | None = None
    wish: int | None = None
    wish_before: int | None = None
    wished_in: int = 0
    data_ended: bool = False
    boot: str | None = None
    sent: set[tuple[str, int]] = field(default_factory=set)
    decision: HandedDecision | None = None
    decided_at: float = 0.0
    slot: HandedSlot | None = None
    gradients: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    scored: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The process's node."""
        return self.begun.node

    @property
    def charged(self) -> int:
        """The number of charged rounds in its journal."""
        return self.newest.charged if self.newest else self.begun.carried

    @property
    def stepped(self) -> int:
        """The last round stepped (0: none)."""
        return self.newest.stepped if self.newest else 0

    def remember(self, record: Durable) -> None:
        """Handle the next record of the journal."""
        if self.newest is not None and record.stepped != self.newest.round:
            self.lost.clear()  # the node was away and has joined again
            self.steps.clear()
        self.newest = self.records[record.round] = record
        if record.stepped:
            self.steps.append(record.stepped)
        self.lost.update({(record.stepped, silent.source): silent for silent in record.given_up})
        for corrected in record.corrected:
            self.lost.pop(corrected, None)


class Lives:
    """All disks of a history."""

    def __init__(self, setup: Setup, edges: EdgeLog) -> None:
        self._setup, self._edges = setup, edges
        self._folders: dict[int, Disk] = {}
        self._most: dict[str, int] = {}

    def most_charged(self, name: str) -> int:
        """Return the largest number of charges that any journal of the node has had."""
        return self._most.get(name, 0)

    def restored(self, number: int, behind: int, count: int) -> None:
        """Record that a disk's journal is an older copy.

        It lacks the newest `behind` records, and has `count` of those before.
        """
        folder = self._folders.get(number)
        if folder is not None and behind:
            folder.kept = count
            folder.records = folder.records[:-behind] if count else []

    def copied(self, folder: int, copy: int) -> None:
        """Record that a disk was copied."""
        if folder in self._folders:
            self._folders[copy] = self._folders[folder].copied()

    def begin(self, begun: Begun, at: float) -> WatchedProcess:
        """Check what a process finds on its disk, and return the process. Raises Violation."""
        folder = self._folders.setdefault(begun.folder, Disk(begun.instance))
        name = begun.node
        if folder.instance != begun.instance:
            if begun.records or begun.carried != folder.charged:
                charges = f"{begun.carried} charged rounds: its journal had {folder.charged}"
                raise Violation(f"{name} begins a new life with {charges}")
            folder.instance, folder.carried = begun.instance, begun.carried
            folder.records, folder.kept = [], 0
        newest_records = folder.records[len(folder.records) - folder.kept :]
        is_whole = list(map(_text, begun.records)) == list(map(_text, newest_records))
        if not is_whole or begun.carried != folder.carried:
            raise Violation(f"{name} starts with other records than its journal was given")
        self._check_newest(begun)
        process = WatchedProcess(begun, at)
        for record in folder.records:  # a journal has fewer records, as a step needs no more
            process.remember(record)
        self._most[name] = max(self._most.get(name, 0), process.charged)
        return process

    def durable(self, process: WatchedProcess, record: Durable) -> None:
        """Handle a record that has become durable."""
        process.remember(record)
        folder = self._folders[process.begun.folder]
        folder.records.append(record)
        folder.kept = min(folder.kept + 1, self._setup.horizon + 1)
        self._most[process.name] = max(self._most.get(process.name, 0), record.charged)

    def _check_newest(self, begun: Begun) -> None:
        """Check that a process's journal has all releases of its node on edges.

        Otherwise it must not continue.
        """
        name, instance = begun.node, begun.instance
        values = {record.round: record.value.tobytes() for record in begun.records}
        newest = max(values, default=0)
        for source, target in self._setup.files[begun.generation].edges:
            for release in self._edges.present(source, target) if source == name else ():
                own_life = release.instance == instance
                later = release.round > newest and (own_life or bool(values))
                if later or (own_life and values.get(release.round, release.bits) != release.bits):
                    raise Violation(
                        f"{name} goes on with a journal older than its release for {release.round}"
                    )


def _text(record: Durable) -> tuple[object, ...]:
    """Return the parts of a record that a restart must find unchanged."""
    return record.round, record.stepped, record.value.tobytes(), record.exact, record.charged, record.given_up
