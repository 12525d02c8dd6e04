"""Feeds a source to a node's data topic."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError

from streams.bus.connection import PATIENCE, admin_settings
from streams.bus.errors import denied
from streams.bus.preflight import preflight
from streams.bus.rights import feeder
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.parties import feeder_user
from streams.records.faults import FaultCounts
from streams.runtime.kafka import reached
from streams.runtime.process import ProcessStopped, Stop, retry_until_reachable
from streams.terminal.progress_bars import shown
from streams.terminal.wording import counted
from streams.tools.feed.feed_source import FeedOptions, Opened, opened
from streams.tools.feed.lines import BYTES, Line, Lines, digest, encode_letter, lacking
from streams.tools.feed.pace import FeedFailed, Interruptible, Pace, most_ahead
from streams.tools.feed.topic import ANEW, LINE, MARK, FeedTopic, feed_topic

# Writes lines to a data topic with kafka-python: in order, each once, and without gaps.

WINDOW = 10_000
"""Largest number of records on their way, as kafka-python has no limit. No letter is further behind."""
QUIET = 5.0
"""Seconds without an acknowledgement before the broker is probed."""
NO_TIME = -1
"""Kafka's timestamp for a record without a time: it is in no slot."""
_STEP = 0.005
_FLUSH = 1.0  # with the three seconds of a probe less than five


def producer_settings(broker: BrokerSettings, topic: FeedTopic) -> dict[str, Any]:
    """Return the settings of a feed's producer."""
    return admin_settings(broker) | {
        "enable_idempotence": True,  # one batch at a time is on its way, and is stored once
        "acks": "all",
        "delivery_timeout_ms": 2**31 - 1,  # giving up a batch would leave a gap
        "linger_ms": 5,
        "batch_size": min(65_536, topic.largest),
        "max_request_size": 8 * 2**20,  # no limit by the client: letters are longer than records
        "max_block_ms": int(1000 * PATIENCE),
        "reconnect_backoff_max_ms": 500,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


class Writer:
    """The producer of one feed. Raises BusError if the broker refuses; close it when done.

    Attributes
    ----------
    sent, acknowledged : int
        Lines sent so far, and acknowledged so far.
    counts : FaultCounts
        The acknowledged lines and their faults.
    """

    def __init__(self, broker: BrokerSettings, node: str, topic: FeedTopic, stop: Stop) -> None:
        self._broker, self._node, self._topic, self._stop = broker, node, topic, stop
        self._waiting = Interruptible(stop)
        self.sent = self.acknowledged = 0
        self.counts = FaultCounts()
        self._letters = deque[tuple[int, int]]()  # (line, bytes) of those on their way
        self._posted = self._delivered = 0  # bytes of letters
        self._failure: FeedFailed | None = None
        self._heard = time.monotonic()
        try:
            self._producer = KafkaProducer(**producer_settings(broker, topic))
        except KafkaError as error:
            raise FeedFailed(f"{broker.servers}: {error}") from None

    def put(self, line: Line) -> None:
        """Write a line; a bad one becomes an empty record and a dead letter. Raises ProcessStopped, BusError.

        Records do not wait for letters: otherwise a record's arrival time would depend on its content.
        """
        self.tend()
        self._until(lambda: self.sent - self.acknowledged < WINDOW)
        self._until(lambda: not self._letters or self._letters[0][0] > line.number - WINDOW)
        timestamp = _milliseconds(line) if self._topic.timed else None
        value = line.value if line.bad is None else b""
        headers = [(LINE, b"%d" % line.number), (MARK, line.mark)]
        future = self._send(self._topic.name, value, headers=headers, timestamp_ms=timestamp, partition=0)
        self.sent += 1
        future.add_callback(partial(self._arrived, line))
        future.add_errback(partial(self._refused, self._topic.name))
        if line.bad is not None and digest(letter := encode_letter(line)) not in self._topic.lettered:
            self._put_letter(line.number, letter)

    def put_again(self, letters: Iterable[bytes]) -> None:
        """Write letters again that were lost when a feed was killed. Raises ProcessStopped, BusError."""
        for letter in letters:
            self._put_letter(self._topic.line, letter)
        self._until(lambda: not self._letters)

    def sleep(self, seconds: float) -> None:
        """Wait, and report it if the broker is away. Raises ProcessStopped, BusError."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._waiting.sleep(min(left, 1.0))
            self.tend()

    def finish(self) -> None:
        """Wait until all is acknowledged. Raises ProcessStopped, BusError."""
        self._until(lambda: self.acknowledged == self.sent and not self._letters)

    def tend(self) -> None:
        """Raise the failure, if any; wait for a broker that has long been silent. Raises ProcessStopped."""
        if self._failure is not None:
            raise self._failure
        if self.acknowledged == self.sent and not self._letters:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > QUIET:
            self._wait_for_broker()

    def close(self) -> None:
        """Disconnect, after a moment for records on their way; those not acknowledged are dropped."""
        with suppress(KafkaError):
            self._producer.flush(_FLUSH)
        self._stop_sending()
        with suppress(KafkaError):
            self._producer.close(_FLUSH)

    def _put_letter(self, number: int, letter: bytes) -> None:
        size = len(letter)
        self._until(lambda: not self._letters or self._posted - self._delivered + size <= BYTES)
        self._letters.append((number, size))
        self._posted += size
        future = self._send(self._topic.letters, letter, partition=0)
        future.add_callback(self._letter_arrived)
        future.add_errback(partial(self._refused, self._topic.letters))

    def _wait_for_broker(self) -> None:
        reached(self._broker, self._stop)
        topic, user = self._topic, feeder_user(self._node)
        retry_until_reachable(  # it may go away again meanwhile
            self._stop, lambda: preflight(self._broker, topic.access, {}, (topic.name,), user)
        )
        self._heard = time.monotonic()

    def _send(self, topic: str, value: bytes, **more: Any) -> Any:
        while True:
            try:
                return self._producer.send(topic, value, **more)
            except KafkaTimeoutError:  # the client did not take it
                self._wait_for_broker()
            except KafkaError as error:
                raise self._failure or self._failed(topic, error) from None

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._waiting.sleep(_STEP)
            self.tend()

    def _arrived(self, line: Line, metadata: Any) -> None:  # in kafka-python's thread, as the next three
        if metadata.offset not in {line.number - 1, -1}:  # -1: it was stored before
            text = f"line {line.number:,} became its record {metadata.offset + 1:,}"
            self._fail(FeedFailed(f"{self._topic.name}: {text}: others write to it: {ANEW}"))
        self.acknowledged += 1
        self.counts.add(line.bad)
        self._heard = time.monotonic()

    def _letter_arrived(self, _: Any) -> None:
        self._delivered += self._letters.popleft()[1]  # they go to one partition, so they arrive in order
        self._heard = time.monotonic()

    def _refused(self, topic: str, error: Exception) -> None:
        self._fail(self._failed(topic, error))

    def _fail(self, failure: FeedFailed) -> None:
        if self._failure is None:
            self._failure = failure
            self._stop_sending()

    def _failed(self, topic: str, error: Exception) -> FeedFailed:
        if isinstance(error, TopicAuthorizationFailedError):
            return FeedFailed(str(denied(self._broker.servers, topic, "write", feeder_user(self._node))))
        return FeedFailed(f"{self._broker.servers}: {topic}: {error}")

    def _stop_sending(self) -> None:
        # The public close() would first send waiting records, and so leave a gap after a lost one.
        self._producer._sender.force_close()  # noqa: SLF001 # see above


def _milliseconds(line: Line) -> int:
    """Return Kafka's timestamp, rounded down so that the record stays in its slot."""
    return NO_TIME if line.timestamp is None else round(line.timestamp * 1e6) // 1000


@dataclass(frozen=True, slots=True)
class Fed:
    """A feed's result: the topic held `before` lines, and holds `records` more; `counts` has their faults."""

    topic: str
    before: int
    records: int
    counts: FaultCounts
    seconds: float
    stopped: bool


def feed(file: MeshFile, node: str, wanted: FeedOptions, stop: Stop) -> Fed:
    """Feed a node's data topic until its source ends, or until asked to stop; waits for the broker.

    Raises MeshFileError if the request does not fit the source, ProcessStopped before the first line,
    BusError if broker or topic refuse. Acknowledged records stay in the topic.
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
    """Write the lines of a source that the topic lacks, at that pace. Raises as `feed` does."""
    lines, waiting = Lines(source, topic.largest), Interruptible(stop)
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
    except ProcessStopped:
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


def _before_end(lines: Lines, left: int | None, waiting: Interruptible) -> Iterator[Line]:
    """Yield the lines, `left` at most. Raises ProcessStopped."""
    while left is None or left > 0:
        with waiting:
            line = next(lines, None)
        if line is None:
            return
        left = None if left is None else left - 1
        yield line
