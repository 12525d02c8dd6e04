"""The bus in one process: logs in memory, and deliveries in an order that may be made hostile.

Without faults every record is delivered once, in the order of the sends. With them, the order over topics is
drawn from a seed (within a topic it holds, as on a broker), records come twice, and senders are slow.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streams.bus.bus import TooLarge, UnknownTopic
from topology.keyed import generator

Handler = Callable[[int, bytes], None]
Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong, as arguments.

    Attributes
    ----------
    seed : int
        Of the interleaving and the duplicates.
    duplicate : float
        Probability that a delivery is followed by an older record of its topic.
    latency : mapping of topic to seconds
        How long a record sent to the topic takes to be there.
    slot_time : float
        Seconds that a slot takes to fill.
    crash_before : set of (node, n)
        The node's process dies before its n-th effect (counted from 1, over all its processes).
    restart_after : float
        Seconds from a crash to the restart.
    """

    seed: int = 0
    duplicate: float = 0.0
    latency: Mapping[str, float] = field(default_factory=dict)
    slot_time: float = 0.0
    crash_before: frozenset[tuple[str, int]] = frozenset()
    restart_after: float = 0.0


class Subscription:
    """A reader of one topic, from an offset on."""

    __slots__ = ("active", "handler", "log", "next", "topic")

    def __init__(self, topic: str, log: list[bytes], offset: int, handler: Handler) -> None:
        self.topic, self.log, self.next, self.handler, self.active = topic, log, offset, handler, True


class MemoryBus:
    """Topics in memory, virtual time, and one delivery at a time."""

    def __init__(self, topics: Iterable[str], faults: Faults | None = None, largest: int = 2**20) -> None:
        self.now = 0.0
        self._logs: dict[str, list[bytes]] = {topic: [] for topic in topics}
        self._readers: dict[str, list[Subscription]] = {topic: [] for topic in self._logs}
        self._pending: deque[Subscription | Action] = deque()  # one entry a delivery or an action that is due
        self._timers: list[tuple[float, int, Action]] = []
        self._timers_set = 0
        self._largest = largest
        self._latency = faults.latency if faults else {}
        self._duplicate = faults.duplicate if faults else 0.0
        self._chance = generator("faults", faults.seed) if faults else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics there are."""
        return tuple(self._logs)

    def send(self, topic: str, value: bytes) -> None:
        """Append `value` (after the topic's latency). Raises UnknownTopic, TooLarge."""
        self._log(topic)
        if len(value) > self._largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {self._largest} are allowed")
        latency = self._latency.get(topic, 0.0)
        if latency:
            self.after(latency, lambda: self._append(topic, value))
        else:
            self._append(topic, value)

    def end(self, topic: str) -> int:
        """Return the offset that the next record will have. Raises UnknownTopic."""
        return len(self._log(topic))

    def read(self, topic: str, offset: int) -> Sequence[bytes]:
        """Return the records from `offset` to the topic's end. Raises UnknownTopic."""
        return self._log(topic)[offset:]

    def subscribe(self, topic: str, offset: int, handler: Handler) -> Subscription:
        """Deliver the topic's records from `offset` on to `handler`, one a call of `deliver`."""
        log = self._log(topic)
        subscription = Subscription(topic, log, offset, handler)
        self._pending.extend([subscription] * (len(log) - offset))
        self._readers[topic].append(subscription)
        return subscription

    def cancel(self, subscription: Subscription) -> None:
        """Deliver nothing more to that reader."""
        subscription.active = False
        self._readers[subscription.topic].remove(subscription)

    def soon(self, action: Action) -> None:
        """Do `action` among the deliveries that are due."""
        self._pending.append(action)

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` when that much virtual time has passed."""
        self._timers_set += 1
        heapq.heappush(self._timers, (self.now + seconds, self._timers_set, action))

    def run(self) -> None:
        """Deliver until there is nothing left to."""
        while self.deliver():
            pass

    def deliver(self) -> bool:
        """Deliver one record, or let time pass to the next timer. Return whether there was either."""
        while self._pending:
            due = self._pending.popleft() if self._chance is None else self._drawn(self._chance)
            if not isinstance(due, Subscription):
                due()
            elif due.active:
                self._hand_over(due)
            else:
                continue
            return True
        if self._timers:
            self.now, _, action = heapq.heappop(self._timers)
            action()
            return True
        return False

    def drain(self, subscriptions: Iterable[Subscription]) -> None:
        """Deliver what these readers have not read yet, to the end of their topics."""
        for subscription in subscriptions:
            while subscription.active and subscription.next < len(subscription.log):
                self._hand_over(subscription)

    def _append(self, topic: str, value: bytes) -> None:
        self._logs[topic].append(value)
        self._pending.extend(self._readers[topic])

    def _drawn(self, chance: np.random.Generator) -> Subscription | Action:
        self._pending.rotate(-int(chance.integers(len(self._pending))))
        return self._pending.popleft()

    def _hand_over(self, subscription: Subscription) -> None:
        log, offset = subscription.log, subscription.next
        if offset >= len(log):
            return  # drained before its turn
        subscription.next = offset + 1
        subscription.handler(offset, log[offset])
        if self._chance is not None and self._chance.random() < self._duplicate:
            again = int(self._chance.integers(offset + 1))
            if subscription.active:
                subscription.handler(again, log[again])

    def _log(self, topic: str) -> list[bytes]:
        try:
            return self._logs[topic]
        except KeyError:
            raise UnknownTopic(f"no topic {topic}") from None
