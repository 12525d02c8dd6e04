"""What every run has spent on a node's data, kept beside the data: `spends.<node>` on the data broker.

A record is the line that a state folder has of a run (`streams/journal/spends.py`), under a key of its own.
The topic is compacted: the last line of each key stays, for ever. Lines are written as a life of a node
begins, before it says hello, as it ends, and before charges leave its journal; never round by round.

What follows: whoever reads the topic knows of every life that began, of any mesh, wherever its state folder
is, and where that began to read. What does not: how many rounds a life has charged that did not end in
order. Its line stays open, so a record's epsilon counts in full, and what the whole stream cost is as far as
its journal says, where that is there. A life writes before it reads: of two that begin at the same moment
one at least knows of the other. A topic that is deleted, or made anew, forgets: folders write their lines
again.
"""

from nodes.privacy.spends import Spend
from streams.bus import BusError
from streams.journal.spend_lines import from_line, to_line
from streams.kafka.bus import KafkaBus
from streams.kafka.connection import PATIENCE
from streams.kafka.errors import Unreachable
from streams.kafka.logs import Stored
from streams.kafka.topic_specs import LEAST_LIMIT, OVERHEAD
from streams.mesh_file.settings.node import BrokerSettings
from streams.topics import DataTopics

_LARGEST = LEAST_LIMIT - OVERHEAD


class SpendsTopic:
    """A process's hold of `spends.<node>`; close it when done. Raises UnknownTopic, Denied, Unreachable."""

    def __init__(self, broker: BrokerSettings, node: str) -> None:
        self._name = DataTopics(node).spends
        self._bus = KafkaBus(broker, {self._name: _LARGEST})

    def read(self) -> tuple[Spend, ...]:
        """Return every line, oldest first: of a key the last one, and perhaps others before it.

        Raises Unreachable, Denied, and BusError where a line is none: what it said is not known.
        """
        first, _ = self._bus.span(self._name)
        return tuple(self._spend(stored) for stored in self._bus.stored({self._name: first})[self._name])

    def write(self, key: str, spend: Spend, seconds: float = PATIENCE) -> None:
        """Write a line; when this returns all the broker's replicas have it.

        Raises Unreachable where they have not within `seconds`: then the same again is harmless. BusError.
        """
        self._bus.send(self._name, to_line(spend).encode(), key=key.encode())
        if not self._bus.flush(seconds):
            raise Unreachable(f"{self._name}: what is spent is not acknowledged")

    def close(self) -> None:
        """Let go of the broker."""
        self._bus.close()

    def _spend(self, stored: Stored) -> Spend:
        try:
            return from_line(stored.value.decode())
        except (ValueError, TypeError, KeyError) as error:
            where = f"{self._name}: the record at offset {stored.offset} is broken"
            raise BusError(f"{where}: what earlier runs have spent is not known") from error
