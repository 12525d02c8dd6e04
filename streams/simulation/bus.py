"""One process's access to a faulty broker."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

from streams.bus.bus import FailureHandler, RecordHandler, TooLarge, Unreachable
from streams.bus.memory import Action, Faults, Log, MemoryBroker, MemoryBus, MemoryReader
from streams.runtime.actions import VirtualScheduler
from streams.runtime.process import ProcessExit

# The link between one process and the broker. It can be cut in one direction or in both.


class LinkQueue(Protocol):
    """A queue of messages that wait for the link."""

    def pass_on(self) -> None:
        """Pass on what the link can carry again."""


class Link:
    """A process's link to the broker. `deaf`: the process receives nothing. `mute`: what it sends waits."""

    def __init__(self) -> None:
        self.deaf = self.mute = False
        self.bus: LinkQueue | None = None

    @property
    def whole(self) -> bool:
        """Whether the link carries messages in both directions."""
        return not (self.deaf or self.mute)

    def check(self) -> None:
        """Raise Unreachable unless the link carries messages in both directions."""
        if not self.whole:
            raise Unreachable("the broker does not answer")

    def cut(self, *, deaf: bool = False, mute: bool = False) -> None:
        """Cut the given directions."""
        self.deaf |= deaf
        self.mute |= mute

    def heal(self, *, deaf: bool = False, mute: bool = False) -> None:
        """Restore the given directions, and pass on the messages that have waited."""
        self.deaf &= not deaf
        self.mute &= not mute
        if self.bus is not None:
            self.bus.pass_on()


# A broker in memory that delays, repeats and loses records.

BEYOND = 1 << 40
"""An offset beyond the end of any log. A reader that is put there finds out that its records are lost."""


class Observer(Protocol):
    """Watches a broker."""

    def happens(self) -> None:
        """Handle the next event, before it happens. Faults begin here."""

    def appended(self, topic: str, value: bytes) -> None:
        """Handle a new record."""


class FaultyBroker(MemoryBroker):
    """A broker whose faults change while it runs.

    `survives` decides whether a message that a process was sending when it died reaches the log.
    """

    def __init__(
        self, topics: Iterable[str], faults: Faults | None, observer: Observer, survives: Callable[[], bool]
    ) -> None:
        super().__init__(topics, faults)
        self.latency: dict[str, float] = {}
        self.survives = survives
        self.links: dict[MemoryReader, Link] = {}
        self._observer = observer

    def deliver(self) -> bool:
        """Do the next event. Return False if there is none."""
        self._observer.happens()
        return super().deliver()

    def append(self, log: Log, value: bytes, key: bytes) -> None:
        """Append a record and schedule its deliveries."""
        super().append(log, value, key)
        self._observer.appended(log.topic, value)

    def at(self, time: float, action: Action) -> None:
        """Do `action` at this virtual time."""
        self._timers_set += 1
        heapq.heappush(self._timers, (time, self._timers_set, action))

    def write(self, topic: str, value: bytes) -> None:
        """Append a record that a forger has written. It may have any size."""
        self.append(self.logs[topic], value, b"")

    def calm(self) -> None:
        """Deliver every record once, without delay and in order, from now on."""
        self.latency, self._chance = {}, None

    def forget(self, topic: str, count: int) -> int:
        """Lose the last records of a topic, although they were acknowledged. Return how many were lost.

        A reader beyond the new end finds out, as a client does from the log's epochs.
        """
        log = self.logs[topic]
        count = min(count, len(log.records))
        del log.records[len(log.records) - count :]
        end = log.span[1]
        for reader in tuple(log.readers):
            if reader.positions[topic] > end:
                reader.positions[topic] = BEYOND
                self._pending.append((reader, log))
        return count

    def resume(self, reader: MemoryReader, topics: Iterable[str]) -> None:
        """Schedule the deliveries that a deaf reader has missed."""
        for topic in topics:
            log, position = self.logs[topic], reader.positions[topic]
            lag = log.span[1] - position
            self._pending.extend([(reader, log)] * (lag if lag >= 0 else 1))

    def _hand_over(self, reader: MemoryReader, log: Log) -> None:
        link = self.links.get(reader)
        if link is None or not link.deaf:
            super()._hand_over(reader, log)


_Send = tuple[Log, bytes, Action | None, bytes]


class Killed(ProcessExit):
    """A planted fault: the process dies at this point."""

    exit_code = 137


class PlannedCrash:
    """The planned death of a process before one of its next effects.

    The next process starts `restart_after` seconds later.
    """

    def __init__(self) -> None:
        self.restart_after = 0.0
        self._left: int | None = None

    def plan(self, effects: int, restart_after: float) -> None:
        """Let the process die before one of its next effects: before the next for `effects` 1."""
        self._left, self.restart_after = effects, restart_after

    def forget(self) -> None:
        """Plan no death. Called when another process starts."""
        self._left = None

    def effect(self, _: object = None) -> None:
        """Count an effect before it is carried out. Raises Killed if the process dies at it."""
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self._left = None
                raise Killed("killed")


class Appends:
    """The appends that another thread of a process is making.

    If the process dies, some of them reach the disk.
    """

    def __init__(self, broker: FaultyBroker) -> None:
        self._broker = broker
        self._under_way: list[Action] = []

    def begin(self, seconds: float, append: Action) -> None:
        """Do `append` after this much virtual time, if the process is still alive."""
        self._under_way.append(append)

        def finish() -> None:
            if append in self._under_way:
                self._under_way.remove(append)
                append()

        self._broker.after(seconds, finish)

    def die(self, noted: Action = lambda: None) -> None:
        """Do some of the appends that are being made, and drop the others. Calls `noted` for each."""
        appends, self._under_way = self._under_way, []
        for append in appends:
            noted()
            if self._broker.survives():
                append()


class FaultyBus(MemoryBus):
    """One process's access to a faulty broker. Messages to one topic stay in order, with any delays.

    `looks`: when the ends of a set of topics were last read. `observer` is called with every message that is
    sent.
    """

    def __init__(self, broker: FaultyBroker, link: Link) -> None:
        super().__init__(broker)
        self._faulty, self._link = broker, link
        self._due: dict[str, float] = {}
        self._flying: dict[int, _Send] = {}  # by number
        self._held: list[_Send] = []
        self._sends = 0
        self.looks: dict[tuple[str, ...], float] = {}
        self.observer: Callable[[str, bytes], None] | None = None
        link.bus = self

    @property
    def closed(self) -> bool:
        """Whether the process has ended."""
        return self._closed

    def send(
        self, topic: str, value: bytes, acknowledged: Action | None = None, key: bytes | None = None
    ) -> None:
        """Append `value` after the topic's latency, as soon as the link carries it.

        Raises as MemoryBus does.
        """
        broker, log = self._faulty, self._log(topic)
        if len(value) > broker.largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {broker.largest} are allowed")
        if self.observer is not None:
            self.observer(topic, value)
        self.waiting += 1
        message = log, value, acknowledged, key or b""
        due = max(broker.now + broker.latency.get(topic, 0.0), self._due.get(topic, 0.0))
        # a message that is due now may still be in flight: no later one may overtake it
        if due <= broker.now and all(flying[0] is not log for flying in self._flying.values()):
            self._arrive(message)
            return
        self._due[topic] = due
        self._sends += 1
        self._flying[self._sends] = message
        broker.at(due, partial(self._arrived, self._sends))

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset and its end. Raises UnknownTopic, Unreachable."""
        if self._link.deaf:
            raise Unreachable("the broker does not answer")
        return super().span(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the end of each log, and note the time of the look-up. Raises as `span` does."""
        ends = {topic: self.end(topic) for topic in topics}
        self.looks[tuple(topics)] = self._faulty.now
        return ends

    def subscribe(
        self,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        *,
        lossy: Collection[str] = (),
    ) -> MemoryReader:
        """Pass on the records of these topics while the link carries them."""
        reader = super().subscribe(offsets, record, failed, lossy=lossy)
        self._faulty.links[reader] = self._link
        return reader

    def pass_on(self) -> None:
        """Pass on the messages that have waited for the link."""
        if not self._link.mute:
            messages, self._held = self._held, []
            for message in messages:
                self._land(*message)
        if not self._link.deaf:
            for reader in self._readers:
                if reader.active:
                    self._faulty.resume(reader, reader.positions)

    def close(self) -> None:
        """End like a killed process. Of the messages in flight the first ones may have arrived."""
        super().close()
        for reader in self._readers:
            self._faulty.links.pop(reader, None)
        flying, self._flying, self._held = self._flying, {}, []
        for log, value, _, key in flying.values():
            if self._link.mute or not self._faulty.survives():
                return
            self._faulty.append(log, value, key)

    def _arrived(self, number: int) -> None:
        if not self._closed:
            self._arrive(self._flying.pop(number))

    def _arrive(self, sent: _Send) -> None:
        if self._link.mute or self._held:
            self._held.append(sent)
        else:
            self._land(*sent)


class PausedScheduler(VirtualScheduler):
    """The turns of a process that can be paused. What is due in the pause is done after it."""

    def __init__(self, broker: FaultyBroker) -> None:
        super().__init__(broker)
        self.paused = False
        self._waiting: list[Action] = []

    def pause(self) -> None:
        """Do nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Do what was due in the pause, and continue."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.do(action)

    def put(self, action: Action) -> None:
        """Do `action` in turn with the deliveries that are due."""
        super().put(lambda: self.do(action))

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` after this much virtual time."""
        super().after(seconds, lambda: self.do(action))

    def do(self, action: Action) -> None:
        """Do `action` now, as one turn; if the process is paused, after the pause."""
        if self.paused:
            self._waiting.append(action)
        else:
            action()
