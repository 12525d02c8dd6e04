"""The journal record of a node's transition, durable before the release is sent, and its message."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from nodes.accounting.guarantee import Ledger
from nodes.values import Average, Release


class ReleaseMessage(NamedTuple):
    """The release of `source` for `round`, sent unchanged on all its edges.

    `instance` is the life of its journal. `exact`: made without noise, from public values alone (x_1, a
    joiner's consensus). `simulated`: the noise is seeded, so nothing is protected.
    """

    run: str
    source: str
    instance: str
    round: int
    exact: bool
    simulated: bool
    release: Release


DataPosition = tuple[tuple[int, int], ...]
"""(partition, offset of the first record that a later slot may need), by partition; (): the beginning."""


class GivenUp(NamedTuple):
    """A source not heard in a round, its awaited instance, and its weight in that round."""

    source: str
    instance: str
    weight: float


class JournalRecord(NamedTuple):
    """The public state after one step. It is all that a restart needs, and holds no data without noise.

    Attributes
    ----------
    round : int
        The round the release is for.
    stepped : int
        The round whose slot the release was made of.
    release : Release
        q, shape (d,).
    exact : bool
        Whether the release was made without noise, from public values alone.
    charged : int
        Charged rounds so far, this one included.
    epsilon_spent : float
        The epsilon of the whole run so far.
    data_position : DataPosition or None
        The offsets from which the next slot is read; None: from the topic's end at that time.
    topology_position : int
        The next offset on the topology.
    edge_positions : tuple of (source, offset)
        The offset from which to read each in-edge again.
    given_up : tuple of GivenUp
        Sources not heard in `stepped`.
    corrected : tuple of (round, source)
        Late releases that were added to the consensus of `stepped`.
    distrusted : tuple of (source, instance)
        Sources that count as silent, as they have sent two values for a round.
    average : Average or None
        The average of the decisions so far; None: none yet. A journal keeps only that of its newest record.
    pardoned : tuple of (source, instance, round)
        Second values of these sources for that round or an earlier one do not count as evidence any more.
    read : DataPosition
        The offsets after the last record that a slot up to this one may hold; at least `data_position`.
    """

    round: int
    stepped: int
    release: Release
    exact: bool
    charged: int
    epsilon_spent: float
    data_position: DataPosition | None
    topology_position: int
    edge_positions: tuple[tuple[str, int], ...]
    given_up: tuple[GivenUp, ...]
    corrected: tuple[tuple[int, str], ...]
    distrusted: tuple[tuple[str, str], ...] = ()
    average: Average | None = None
    pardoned: tuple[tuple[str, str, int], ...] = ()
    read: DataPosition = ()

    def message(self, run: str, source: str, instance: str, *, simulated: bool) -> ReleaseMessage:
        """Return the message with the release for the node's edges; `simulated`: whether its noise is."""
        noise = simulated and not self.exact
        return ReleaseMessage(run, source, instance, self.round, self.exact, noise, self.release)


def is_outdated(records: Iterable[JournalRecord], instance: str, published: Iterable[ReleaseMessage]) -> bool:
    """Return whether a journal is older than its node's published releases: restored, or cloned.

    `published` are the releases on the node's own edges. A published round beyond the journal's last one, of
    any instance, or a value that differs from the journal's proves that. Then another life may have read
    records that this journal would read again. The node then joins as a new instance, with a new journal.
    """
    releases = {record.round: record.release.tobytes() for record in records}
    newest = max(releases, default=0)
    return any(
        (message.round > newest and (releases or message.instance == instance))
        or (
            message.instance == instance
            and releases.get(message.round, message.release.tobytes()) != message.release.tobytes()
        )
        for message in published
    )


# The bound of a journal, whose last appends a power cut may lose: the charges and offsets to assume then.
#
# Formal guarantee.
# A bound is durable before a release beyond it is sent. So of a life that a power cut has ended, whatever
# part of its appends since its last durable bound survives, every release that was ever sent has
#
# 1. a round, a number of charges and a cost that are at most the bound's, and
# 2. records whose offsets are all below the bound's, in every partition.
#
# The next life is another instance, so no round has two values of one instance. It is charged the whole
# bound, so charges err upwards only. It reads from the bound's offsets on, so no record is in a release of
# both lives, whatever a scheduler plans and however much of their logs the brokers have lost.
#
# `JournalRecord.read`, not its position, is what is bounded: with slots by time a slot may hold a record that
# lies behind the first one of a later slot.


class Bound(NamedTuple):
    """The furthest that a life's releases may have come: see the fields of `JournalRecord`."""

    round: int
    charged: int
    epsilon_spent: float
    read: DataPosition

    def covers(self, record: JournalRecord) -> bool:
        """Return whether the record's release is within the bound, so that it may be sent."""
        ends = dict(self.read)
        return (
            record.round <= self.round
            and record.charged <= self.charged
            and record.epsilon_spent <= self.epsilon_spent
            and all(offset <= ends.get(partition, 0) for partition, offset in record.read)
        )

    def inherited(self, newest: JournalRecord) -> JournalRecord:
        """Return the next life's first record: the newest durable one, with the bound's charges and offsets.

        Its release was charged for, so it may be published. Without it a mesh whose machines have all lost
        power would have no release to continue from.
        """
        return newest._replace(
            charged=max(self.charged, newest.charged),
            epsilon_spent=max(self.epsilon_spent, newest.epsilon_spent),
            data_position=self.read or newest.data_position,
            read=self.read,
            given_up=(),
            corrected=(),
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Makes a node's bounds, `horizon` rounds of at most `size` records ahead, within its budget."""

    horizon: int
    size: int
    ledger: Ledger

    def after(self, record: JournalRecord) -> Bound:
        """Return the bound that is durable with `record`.

        Before the first step the bound is that of the record itself. So a node that has stepped has a bound
        on its disk, and one that has not stepped has nothing to lose.
        """
        round, charged, spent = record.round, record.charged, record.epsilon_spent
        if not record.stepped:
            return Bound(round, charged, spent, record.read)
        last = self.ledger.last_learning_round
        charges_ahead = self.horizon if last is None else max(0, min(self.horizon, last - charged))
        return Bound(
            round + self.horizon,
            charged + charges_ahead,
            max(spent, self.ledger.spent(charged + charges_ahead, record.stepped + self.horizon)),
            tuple([(partition, end + self.horizon * self.size) for partition, end in record.read]),
        )
