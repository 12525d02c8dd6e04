"""Whether the data broker has what a node needs, and its log is the one that the journal knows."""

import logging
from collections.abc import Callable
from pathlib import Path

from streams.bus.access import node_on_data
from streams.bus.preflight import preflight
from streams.codec.topics import DataTopics
from streams.live.node_shell import NodeJournal
from streams.mesh.settings.node import BrokerSettings
from streams.state.spends import forget_places


def check_data(
    log: logging.Logger,
    node: str,
    journal: NodeJournal,
    broker: BrokerSettings,
    new_id: Callable[[], str],
    state: Path,
    *,
    by_time: bool,
) -> None:
    """Check topics and rights. Where the log ends before the journal's position it was made anew.

    Then a new life begins, with the old one's charges: its records may be fed again, at other offsets. Slots
    by count need one partition. Raises PreflightFailed, BusError, JournalError.
    """
    topics, records = DataTopics(node), journal.records()
    position = dict(records[-1].data_position or ()) if records else {}
    several = {topics.records} if by_time else set()
    access = node_on_data(node, topics.group)
    outside = preflight(broker, access, {topics.records: position}, several=several)
    if any(found.position > found.end for found in outside):
        forget_places(state, node, ())
        journal.renew(new_id())
        log.warning("%s was made anew: joining as a new instance", topics.records)
