"""Feeds an owner's set of records to its topic.

Nothing of a set may be missing, and no line of a topic can be mended. So the file is looked at whole before
its first line is sent, and there are no dead letters.
"""

from collections.abc import Iterator
from dataclasses import replace

from streams.bus.collaboration import owner_feeder
from streams.mesh.errors import UsageError
from streams.mesh.file import CollaborationFile
from streams.records.lines import ordered
from streams.records.passes import fixed_sets
from streams.records.record import Decoder, RawRecord
from streams.records.sources import Source, opened_records
from streams.runtime.kafka import reached
from streams.runtime.process import Stop, retry_until_reachable
from streams.tools.feed.feed import Fed, write
from streams.tools.feed.feed_source import Opened
from streams.tools.feed.pace import FeedFailed, Pace
from streams.tools.feed.topic import feed_topic


def feed_set(file: CollaborationFile, owner: str, path: str | None, rate: float | None, stop: Stop) -> Fed:
    """Feed the file at `path` to the topic of an owner's set, each line once; waits for the broker.

    Raises UsageError, MeshFileError, before anything is sent, if the file is not the set that the mesh file
    describes; Stopped, BusError as `feed`.
    """
    on_file = _in_file(file, owner, path)
    broker, topics = file.brokers(owner).data, file.data_topics(owner)
    fixed_sets(on_file, [owner])
    longest = max(len(value) for value in _read(on_file, owner)[0])
    reached(broker, stop)
    topic = retry_until_reachable(
        stop, lambda: feed_topic(broker, topics, owner_feeder(topics), by_time=False, timed=False)
    )
    if longest > topic.largest:
        most = f"must be at most {topic.largest:,}, which the topic takes"
        raise FeedFailed(f"{topic.name}: a record has {longest:,} bytes: {most}")
    values, decoder = _read(on_file, owner)
    source = Source((RawRecord(value) for value in values), decoder)
    opened = Opened(source, timed=False, most=file.mesh.owners[owner].records, time_of=None)
    return write(broker, owner, topic, opened, Pace(0.0, rate=rate), stop)


def _in_file(file: CollaborationFile, owner: str, path: str | None) -> CollaborationFile:
    """Return the mesh file with the owner's set in that file, in place of its topic."""
    part = file.own(owner)
    if part.source is None:
        raise file.refuse(
            ("owners", owner, "source"), "missing: must have the kind and schema of what is fed"
        )
    if part.source.path is not None:
        topic = file.data_topics(owner).records
        text = f"the owner reads this file itself: must not be given to take the set from {topic}"
        raise file.refuse(("owners", owner, "source", "path"), text, part.source.path)
    if path is None or path == "-":
        mistake = "missing" if path is None else "standard input can be read only once"
        raise UsageError(f"FILE: {mistake}: must be a file, which is looked at whole before anything is fed")
    source = part.source.model_copy(update={"path": path})
    return replace(file, owners={**file.owners, owner: part.model_copy(update={"source": source})})


def _read(file: CollaborationFile, owner: str) -> tuple[Iterator[bytes], Decoder]:
    """Return the set's lines, and their decoder."""
    place, settings = ("owners", owner, "source"), file.own(owner).source
    if settings is None:
        raise file.refuse(place, "missing")
    lines, decoder = opened_records(file, settings, place)
    return ordered(lines, 0, shuffle=False, take=settings.take, by_time=False), decoder
