"""Reads a node's dead letters: messages of peers that it refused, and its own records that nobody can read.

The latter could not be fed to it, or are stored broken.
"""

import base64
import json
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from streams.bus.bus import Stored
from streams.bus.logs import reached
from streams.codec import decode_dead_letter
from streams.codec.topics import DataTopics
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings

BROKEN = "the letter itself cannot be read"


class Letter(NamedTuple):
    """One letter: its place in its topic, its time (seconds since 1970), and what was refused, why.

    `source`: the topic or the line of the source that `value` is from.
    """

    offset: int
    time: float
    source: str
    reason: str
    value: bytes


class LetterList(NamedTuple):
    """The last letters of a topic, which keeps `kept` of them."""

    topic: str
    kept: int
    last: tuple[Letter, ...]


def peers_letters(file: MeshFile, node: str, last: int) -> LetterList:
    """Return the `last` refused messages of peers, from the mesh broker. Raises BusError, MeshFileError."""
    return _read(file.brokers(node).mesh, file.resolved.topics.dead_letters(node), last, _of_a_peer)


def own_letters(file: MeshFile, node: str, last: int) -> LetterList:
    """Return the `last` records that could not be fed or read, from the node's own broker.

    For its owner's eyes. Raises BusError, MeshFileError.
    """
    return _read(file.brokers(node).data, DataTopics(node).dead_letters, last, _of_its_own)


def _read(broker: BrokerSettings, topic: str, last: int, read: Callable[[Stored], Letter]) -> LetterList:
    with closing(reached(broker)) as logs:  # uncommitted: nobody's open transaction may hide a letter
        logs.partitions([topic])
        first, end = logs.span(topic)
        records = logs.stored({topic: max(first, end - last)})[topic]
    return LetterList(topic, end - first, tuple(_total(record, read) for record in records))


def _total(record: Stored, read: Callable[[Stored], Letter]) -> Letter:
    try:
        return read(record)
    except Exception:  # noqa: BLE001 # without users anybody may have written it
        return Letter(record.offset, record.timestamp, "", BROKEN, record.value)


def _of_a_peer(record: Stored) -> Letter:
    topic, value, reason = decode_dead_letter(record.value)
    return Letter(record.offset, record.timestamp, topic, reason, value)


def _of_its_own(record: Stored) -> Letter:
    fields = json.loads(record.value)
    if "offsets" in fields:  # of a node: streams/live/data/letters.py
        first, last = map(int, fields["offsets"])
        source = f"{fields['topic']} [{int(fields['partition'])}], offsets {first:,} to {last:,}"
        return Letter(record.offset, record.timestamp, source, str(fields["reason"]), b"")
    value = base64.b64decode(fields["value"], validate=True)
    return Letter(
        record.offset, record.timestamp, f"line {int(fields['line']):,}", str(fields["reason"]), value
    )
