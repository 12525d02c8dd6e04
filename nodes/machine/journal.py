"""The record of a node's transition, durable before anybody sees the release, and the release's message."""

from collections.abc import Iterable
from typing import NamedTuple

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
    """The public state after one step: everything that a restart needs, and nothing without noise.

    Attributes
    ----------
    round : int
        The round the release is for.
    stepped : int
        The round whose slot made it.
    release : Release
        q, shape (d,).
    exact : bool
        Whether the release was made without noise, from public values alone.
    charged : int
        Charged rounds so far, this one included.
    epsilon_spent : float
        The epsilon of the whole run so far.
    data_position : DataPosition or None
        Where the next slot begins to read; None: at the topic's end at that time.
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
        Second values of these sources for that round or an earlier one are no evidence any more.
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

    def message(self, run: str, source: str, instance: str, *, simulated: bool) -> ReleaseMessage:
        """Return the message with the release for the node's edges; `simulated`: whether its noise is."""
        noise = simulated and not self.exact
        return ReleaseMessage(run, source, instance, self.round, self.exact, noise, self.release)


def is_outdated(records: Iterable[JournalRecord], instance: str, published: Iterable[ReleaseMessage]) -> bool:
    """Return whether a journal is older than its node's published releases: restored, or cloned.

    `published` are the releases on the node's own edges. A round beyond the journal's last one, of whichever
    instance, or a value that differs from the journal's, proves it: another life may have read records that
    this journal would read again. The node then joins as a new instance, with a new journal.
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
