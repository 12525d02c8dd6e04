"""Feeds a source to a node's data topic."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from streams.bus.rights import feeder
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.faults import FaultCounts
from streams.runtime.kafka import reached
from streams.runtime.process import Stop, Stopped, retry_until_reachable
from streams.terminal.progress_bars import shown
from streams.terminal.wording import counted
from streams.tools.feed.feed_source import Opened, Wanted, opened
from streams.tools.feed.lines import Line, Lines, lacking
from streams.tools.feed.pace import FeedFailed, Pace, Waiting, most_ahead
from streams.tools.feed.topic import ANEW, FeedTopic, feed_topic
from streams.tools.feed.writer import WINDOW, Writer


@dataclass(frozen=True, slots=True)
class Fed:
    """A feed's result: the topic held `before` lines, and holds `records` more; `counts` has their faults."""

    topic: str
    before: int
    records: int
    counts: FaultCounts
    seconds: float
    stopped: bool


def feed(file: MeshFile, node: str, wanted: Wanted, stop: Stop) -> Fed:
    """Feed a node's data topic until its source ends, or until asked to stop; waits for the broker.

    Raises MeshFileError if the request does not fit the source, Stopped before the first line, BusError if
    broker or topic refuse. Acknowledged records stay in the topic.
    """
    broker = file.brokers(node).data
    source = opened(file, node, wanted)
    reached(broker, stop)
    by_time = file.mesh.slots.by == "time"
    topic = retry_until_reachable(
        stop, lambda: feed_topic(broker, node, feeder(node), by_time=by_time, timed=source.timed)
    )
    pace = Pace(
        math.inf if source.live else most_ahead(file.mesh, topic.ahead),
        rate=wanted.rate,
        by_timestamps=wanted.timestamps,
        replay=not by_time,
    )
    fed = write(broker, node, topic, source, pace, stop)
    if source.piped and not by_time and not (fed.stopped or fed.before or fed.records):
        raise file.refuse(("nodes", node, "source"), "standard input held no record")
    return fed


def write(broker: BrokerSettings, node: str, topic: FeedTopic, source: Opened, pace: Pace, stop: Stop) -> Fed:
    """Write the lines of a source that the topic lacks, at that pace. Raises Stopped, BusError as `feed`."""
    lines, waiting = Lines(source, topic.largest), Waiting(stop)
    with waiting:
        letters = _skip(lines, topic)
    left = None if source.most is None else max(0, source.most - topic.line)
    started = time.monotonic()
    writer = Writer(broker, node, topic, stop)
    stopped = False
    try:
        writer.put_again(letters)
        with shown(source.most) as tell:
            for line in _before_end(lines, left, waiting):
                writer.sleep(pace.delay(line.timestamp, time.time(), time.monotonic()))
                writer.put(takeable(line, time.time() + topic.ahead) if source.live else line)
                tell(topic.line + writer.acknowledged, writer.counts.malformed)
            writer.finish()
    except Stopped:
        stopped = True
    finally:
        writer.close()
    seconds = time.monotonic() - started
    return Fed(topic.name, topic.line, writer.acknowledged, writer.counts, seconds, stopped)


def takeable(line: Line, latest: float) -> Line:
    """Return the line, without its time if the topic does not take it: then it is in no slot."""
    if line.timestamp is None or line.timestamp <= latest:
        return line
    return line._replace(timestamp=None)


def _skip(lines: Lines, topic: FeedTopic) -> list[bytes]:
    """Skip the lines that the topic holds; return their dead letters that were lost when a feed was killed.

    Raises FeedFailed unless the topic holds the first of these lines.
    """
    if not topic.line:
        return []
    surely = max(0, topic.line - WINDOW)  # as many lines at least have their letters
    lines.skip(surely)
    last: list[Line] = []

    def rest() -> Iterator[Line]:
        for line in islice(lines, topic.line - surely):
            last[:] = [line]
            yield line

    letters = lacking(rest(), topic.lettered)
    if not last or (last[0].number, last[0].mark) != (topic.line, topic.mark):
        text = f"{topic.name}: the {counted(topic.line, 'line')} that it holds are not the first of these"
        raise FeedFailed(f"{text}: {ANEW}")
    return letters


def _before_end(lines: Lines, left: int | None, waiting: Waiting) -> Iterator[Line]:
    """Yield the lines, `left` at most. Raises Stopped."""
    while left is None or left > 0:
        with waiting:
            line = next(lines, None)
        if line is None:
            return
        left = None if left is None else left - 1
        yield line
