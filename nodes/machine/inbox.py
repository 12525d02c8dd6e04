"""The releases that a node has received: the first value counts, a second one is evidence.

Evidence isolates the instance that sent it, unless anybody may have written it: then it is only counted.
There is one `InEdge` per source. It keeps the first value by (round, instance), from H planned rounds back
(for late corrections and evidence) to 2H ahead (for releases before their plan). After a restart the edge is
read again from `position`, the offset of the oldest value kept.
"""

from collections.abc import Callable

from nodes.machine.events import Notice
from nodes.machine.journal import ReleaseMessage
from nodes.values import Release

MOST_ACCUSED = 64
"""Instances of a source that evidence is remembered of: only the one in the plans matters."""


class InEdge:
    """The releases from one source. `isolates`: whether an instance with a second value counts as silent."""

    def __init__(self, source: str, position: int = 0, *, isolates: bool = True) -> None:
        self.source, self.isolates = source, isolates
        self._kept: dict[tuple[int, str], tuple[Release, int]] = {}  # in the order of the log
        self.accused: dict[str, int] = {}  # instances, with the newest round that has two values
        self.pardoned: dict[str, int] = {}  # instances, with the last round whose second values are forgiven
        self._next = position

    def receive(
        self,
        message: ReleaseMessage,
        offset: int,
        oldest: int,
        most: int,
        planned: Callable[[], frozenset[str]] = frozenset,
    ) -> Notice | None:
        """Keep the message's value if it is the first one. Return a notice about it, if any.

        `oldest` is the first round that still matters, `most` the largest number of values to keep. Where
        there are as many, those of an instance that is `planned` come first: others may be invented.
        """
        if offset >= self._next:
            self._next = offset + 1
        if message.round < oldest:
            return Notice.STALE
        key = (message.round, message.instance)
        first = self._kept.get(key)
        if first is not None:
            if first[0].tobytes() == message.release.tobytes():
                return Notice.DUPLICATE
            if message.round <= self.pardoned.get(message.instance, 0):
                return Notice.DUPLICATE
            self.accuse(message.instance, message.round)
            return Notice.EVIDENCE
        if len(self._kept) >= most and not self._make_room(message, oldest, planned()):
            return Notice.OVERFULL
        self._kept[key] = (message.release, offset)
        return None

    def release(self, round: int, instance: str) -> Release | None:
        """Return the source's release for that round, if it came and its instance is trusted."""
        if self.distrusts(instance):
            return None
        entry = self._kept.get((round, instance))
        return entry[0] if entry else None

    def first(self, round: int, instance: str) -> Release:
        """Return the first value for that round, trusted or not. Raises KeyError if none is kept."""
        return self._kept[round, instance][0]

    def distrusts(self, instance: str) -> bool:
        """Return whether that instance sent two values for a round, and so counts as silent."""
        return self.isolates and instance in self.accused

    def accuse(self, instance: str, round: int) -> None:
        """Remember that there are two values of that instance for that round."""
        accused = self.accused
        accused[instance] = max(round, accused.get(instance, 0))
        if len(accused) > MOST_ACCUSED:
            del accused[min(accused, key=accused.__getitem__)]

    def drop_before(self, round: int) -> int:
        """Forget the values of rounds below `round`; return the offset from which a restart reads again.

        Sources send rounds in order. A value that came before one for a lower round is moved behind it, so
        that a round far ahead holds back neither the others nor the position.
        """
        releases = self._kept
        if self.pardoned:
            self.pardoned = {
                known_instance: last for known_instance, last in self.pardoned.items() if last >= round
            }
        if self.accused and not self.isolates:
            self.accused = {instance: last for instance, last in self.accused.items() if last >= round}
        while releases:
            first = next(iter(releases))
            if first[0] < round:
                del releases[first]
            elif first[0] > next(reversed(releases))[0]:
                releases[first] = releases.pop(first)
            else:
                return releases[first][1]
        return self._next

    def _make_room(self, message: ReleaseMessage, oldest: int, planned: frozenset[str]) -> bool:
        """Forget what is less important than the message.

        That is what is too old, then what is of an instance that nobody plans, then what is for the furthest
        round above.
        """
        count = len(self._kept)
        self._kept = {key: value for key, value in self._kept.items() if key[0] >= oldest}
        if message.instance in planned and len(self._kept) == count:
            self._kept = {key: value for key, value in self._kept.items() if key[1] in planned}
        if len(self._kept) < count:
            return True
        furthest = max(self._kept)
        if furthest[0] <= message.round or (planned and message.instance not in planned):
            return False
        del self._kept[furthest]
        return True
