"""Tells which topics have been silent for so long that a reader looks whether it is deaf there.

A client may wait for ever on a topic that was deleted and made again: it takes the new one for an old
leader's, and reports nothing.
"""

from collections.abc import Callable, Iterable

LOOK = 5.0
"""Seconds without a record, or since the last look, after which a topic is looked at."""


class Silent:
    """The silence of some topics, by a monotonic `clock` in seconds. For one thread."""

    def __init__(self, topics: Iterable[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = dict.fromkeys(topics, clock())
        self._behind: dict[str, int] = {}  # where a topic stood that was not at its end

    def heard(self, topic: str) -> None:
        """Take that the client has told something of the topic."""
        self._since[topic] = self._clock()
        self._behind.pop(topic, None)

    def due(self) -> str | None:
        """Return the topic to look at now, if any: the one of the longest silence."""
        topic = min(self._since, key=self._since.__getitem__)
        return topic if self._clock() - self._since[topic] >= LOOK else None

    def put_off(self) -> None:
        """Look at nothing for a while, as the broker does not answer."""
        self._since = dict.fromkeys(self._since, self._clock())
        self._behind.clear()

    def is_deaf(self, topic: str, position: int, end: int) -> bool:
        """Return whether the reader has stood at `position`, and not at the log's `end`, for two looks."""
        before = self._behind.get(topic)
        self.heard(topic)
        if position != end:
            self._behind[topic] = position
        return position != end and position == before
