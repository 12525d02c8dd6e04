"""Feeds a source to a node's data topic, and an owner's set to its topic."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.bus import connection
from streams.bus.errors import denied, is_denial
from streams.bus.preflight import preflight
from streams.bus.rights import feeder
from streams.collaboration.file import CollaborationFile
from streams.collaboration.passes import fixed_sets
from streams.collaboration.rights import owner_feeder
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.parties import feeder_user
from streams.records.faults import Fault, FaultCounts
from streams.records.lines import ordered
from streams.records.record import Decoder, RawRecord
from streams.records.sources import Source, opened_records
from streams.runtime.kafka import reached
from streams.runtime.process import Interruptible, ProcessStopped, Stop, retry_until_reachable
from streams.terminal.text import counted
from streams.tools.feed.figures import LOGGER, FeedFigures
from streams.tools.feed.lines import (
    ANEW,
    BYTES,
    LINE,
    MARK,
    FeedFailed,
    FeedOptions,
    FeedTopic,
    Line,
    Lines,
    Opened,
    check_next,
    digest,
    encode_letter,
    feed_topic,
    lacking,
    lines_of_feeds,
    opened,
)

# The pace of a feed: the time at which each record is due.

_BURST = 0.1


def most_ahead(mesh: MeshSettings, topic: float) -> float:
    """Return the seconds that a record may be ahead of the clock. The topic accepts up to `topic` seconds.

    With slots by time nodes drop records beyond the horizon. The result is at most half of the horizon, as
    the nodes' clocks may differ.
    """
    return topic if mesh.slots.by == "count" else min(topic, mesh.horizon * mesh.slots.period / 2)


class Pace:
    """The pace of a feed: at full speed, at `rate` records a second, or `by_timestamps`.

    A delayed feed catches up on at most a tenth of a second of its rate, to avoid bursts. `replay`: past
    records keep their intervals; otherwise past records are due at once, as slots by time follow the clock.
    `ahead`: the seconds that a record's time may be ahead of the clock.
    """

    def __init__(
        self, ahead: float, *, rate: float | None = None, by_timestamps: bool = False, replay: bool = False
    ) -> None:
        self._ahead, self._rate, self._by_timestamps, self._replay = ahead, rate, by_timestamps, replay
        self._next: float | None = None
        self._shift: float | None = None

    @property
    def at_full_speed(self) -> bool:
        """Whether a record without a time is due at once."""
        return self._rate is None

    def delay(self, timestamp: float | None, wall: float, steady: float) -> float:
        """Return the seconds from now until the next record is due.

        Parameters
        ----------
        timestamp : float or None
            The record's own time.
        wall, steady : float
            Now, in seconds since 1970 and on a monotonic clock.
        """
        delay = 0.0
        if self._rate is not None:
            due = steady if self._next is None else max(self._next, steady - _BURST)
            self._next = due + 1.0 / self._rate
            delay = due - steady
        if timestamp is not None:
            delay = max(delay, timestamp - self._ahead - wall)
            if self._by_timestamps:
                if self._shift is None:
                    self._shift = max(0.0, wall - timestamp) if self._replay else 0.0
                delay = max(delay, timestamp + self._shift - wall)
        return max(0.0, delay)


# Writes lines to a data topic: in order, each once, and without gaps.
#
# The bus's sender is not used, as it sends a refused record again behind records that were sent later.

WINDOW = 10_000
"""The largest number of records in flight. A letter is at most this many lines behind its record's line."""
Arrived = Callable[[KafkaError | None, Message], None]
"""Handles the delivery report of a record."""
QUIET = 5.0
"""Seconds without an acknowledgement before the broker is probed."""
_SILENT = logging.getLogger("mirrormesh.feed.client")
_SILENT.disabled = True  # a feed reports in a line of its own what is wrong
NO_TIME = -1
"""Kafka's timestamp for a record without a time, which is in no slot."""
_STEP = 0.05
_SERVED = 0.02  # reports and signals are checked this often while lines are sent
_CHECKED = 1.0
"""Least seconds between two looks at what others have written meanwhile."""
_FLUSH = 1.0  # twice, and with the three seconds of a probe, at most five
_LONGEST = 8 * 2**20  # no limit by the client: letters are longer than records


def producer_settings(broker: BrokerSettings, topic: FeedTopic) -> dict[str, Any]:
    """Return the settings of a feed's producer, which is idempotent and never gives up a batch."""
    return connection.producer_settings(broker, _LONGEST, linger=5) | {
        "enable.gapless.guarantee": True,  # nothing is sent after a record that the broker refuses
        "max.in.flight.requests.per.connection": 1,  # and nothing else is in flight then
        "batch.size": min(65_536, topic.largest),
        # A broker that is slow to report a topic is waited for; `preflight` reports a topic that is gone.
        "topic.metadata.propagation.max.ms": 3_600_000,
        "log_level": 0,
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

    def __init__(
        self,
        broker: BrokerSettings,
        node: str,
        topic: FeedTopic,
        stop: Stop,
        figures: FeedFigures | None = None,
    ) -> None:
        self._broker, self._node, self._topic, self._stop = broker, node, topic, stop
        self._figures = figures or FeedFigures(stop)
        self._waiting = Interruptible(stop)
        self.sent = self.acknowledged = 0
        self.counts = self._figures.progress.counts
        self._bad = deque[tuple[int, Fault]]()  # (line, fault) of those in flight
        self._line = topic.line  # the last line acknowledged
        self._letters = deque[tuple[int, int]]()  # (line, bytes) of those in flight
        self._posted = self._delivered = 0  # bytes of letters
        self._failure: FeedFailed | None = None
        self._closed = False
        # the last line whose offset is known, and that before the oldest records of others to be looked at
        self._known = _Place(topic.line, topic.held.end - 1)
        self._elsewhere = topic.held.others - self._known.others  # in other partitions
        self._unchecked: _Place | None = None
        self._checked = -math.inf
        self._show()
        self._heard = self._served = time.monotonic()
        try:
            settings = producer_settings(broker, topic) | {"error_cb": self._note}
            self._producer = Producer(settings, logger=_SILENT)
        except KafkaException as error:
            raise FeedFailed(f"{broker.servers}: {error.args[0].str()}") from None

    def _show(self) -> None:
        self._figures.turn()
        progress = self._figures.progress
        progress.line, progress.others = self._topic.line + self.acknowledged, self.others
        progress.waiting = self.sent - self.acknowledged

    @property
    def others(self) -> int:
        """The number of records of others on the topic, as far as lines are acknowledged behind them."""
        return self._elsewhere + self._known.others

    def put(self, line: Line) -> None:
        """Write a line; a bad one becomes an empty record and a dead letter. Raises ProcessStopped, BusError.

        Records do not wait for letters, as otherwise a record's arrival time would depend on its content.
        """
        if self._failure is not None or time.monotonic() - self._served > _SERVED:
            self.tend()
        if self.sent - self.acknowledged >= WINDOW:
            self._until(lambda: self.sent - self.acknowledged < WINDOW)
        if self._letters:
            self._until(lambda: not self._letters or self._letters[0][0] > line.number - WINDOW)
        if self.sent == self.acknowledged:
            self._line = line.number - 1
        if line.bad is not None:
            self._bad.append((line.number, line.bad))
        self._send(
            self._topic.name,
            line.value if line.bad is None else b"",
            self._arrived,
            headers=[(LINE, b"%d" % line.number), (MARK, line.mark)],
            timestamp=_milliseconds(line) if self._topic.timed else 0,  # 0: now
        )
        self.sent += 1
        if line.bad is not None and digest(letter := encode_letter(line)) not in self._topic.lettered:
            self._put_letter(line.number, letter)

    def put_again(self, letters: Iterable[bytes]) -> None:
        """Write letters again that were lost when a feed was killed. Raises ProcessStopped, BusError."""
        for letter in letters:
            self._put_letter(self._topic.line, letter)
        self._until(lambda: not self._letters)

    def sleep(self, seconds: float) -> None:
        """Wait, and report a broker that is away. Raises ProcessStopped, BusError."""
        self.tend()
        end = time.monotonic() + seconds
        while (seconds_left := end - time.monotonic()) > 0:
            self._waiting.sleep(min(seconds_left, 1.0))
            self.tend()

    def finish(self) -> None:
        """Wait until all records are acknowledged. Raises ProcessStopped, BusError."""
        self._until(lambda: self.acknowledged == self.sent and not self._letters)
        self._check_others()

    def tend(self) -> None:
        """Handle delivery reports and raise the failure, if any. Wait for a broker that has long been silent.

        Raises ProcessStopped.
        """
        self._serve(0.0)
        if self._failure is not None:
            raise self._failure
        if self.acknowledged == self.sent and not self._letters:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > QUIET:
            self._wait_for_broker()
        if self._unchecked is not None and time.monotonic() - self._checked > _CHECKED:
            self._check_others()

    def close(self) -> None:
        """Disconnect, after a short wait for records in flight. Unacknowledged records are dropped."""
        self._flush()
        self._drop_waiting()
        self._flush()  # records that a broker may have stored are counted
        self._closed = True
        self._producer.purge()
        self._producer.close()

    def _put_letter(self, number: int, letter: bytes) -> None:
        size = len(letter)
        self._until(lambda: not self._letters or self._posted - self._delivered + size <= BYTES)
        self._letters.append((number, size))
        self._posted += size
        self._send(self._topic.letters, letter, self._letter_arrived)

    def _wait_for_broker(self) -> None:
        reached(self._broker, self._stop)
        topic, user = self._topic, feeder_user(self._node)
        retry_until_reachable(  # the broker may go away again meanwhile
            self._stop, lambda: preflight(self._broker, topic.access, {}, (topic.name,), user)
        )
        self._heard = time.monotonic()

    def _send(self, topic: str, value: bytes, arrived: Arrived, **more: Any) -> None:
        while True:
            try:
                return self._producer.produce(topic, value, partition=0, on_delivery=arrived, **more)
            except BufferError:  # the client's memory is full
                self._serve(_STEP)
                self._waiting.sleep(0.0)  # raises ProcessStopped after a signal
                self.tend()
            except KafkaException as error:
                self._serve(0.0)  # the refusal before it gives the reason, which this error does not
                raise self._failure or self._failed(topic, error.args[0]) from None

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._serve(_STEP)
            if done():
                return
            self._waiting.sleep(0.0)  # raises ProcessStopped after a signal
            self.tend()

    def _serve(self, seconds: float) -> None:
        """Handle the available delivery reports, waiting up to `seconds` for the first."""
        self._served = time.monotonic()
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # a fatal error
            self._fail(self._failed(self._topic.name, error.args[0]))
        self._show()

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._fail(self._failed(self._topic.name, error))

    def _flush(self) -> None:
        end = time.monotonic() + _FLUSH
        while len(self._producer) and (seconds_left := end - time.monotonic()) > 0:
            self._serve(seconds_left)

    def _arrived(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused(self._topic.name, error)
            return
        # There is one partition, and nothing is sent behind a refused record. So reports come in the order of
        # the lines.
        self._line += 1
        offset = message.offset()
        if offset is not None and offset >= 0:  # else it was stored before
            self._place(_Place(self._line, offset))
        self.acknowledged += 1
        fault = self._bad.popleft()[1] if self._bad and self._bad[0][0] == self._line else None
        self.counts.add(fault)
        self._heard = self._served

    def _place(self, place: "_Place") -> None:
        """Note a line's offset, and records of others before it."""
        if place.others < self._known.others:
            text = f"line {place.line:,} became its record {place.offset + 1:,}: records before it are lost"
            self._fail(FeedFailed(f"{self._topic.name}: {text}: {ANEW}"))
        elif place.others > self._known.others and self._unchecked is None:
            self._unchecked = self._known
        self._known = place

    def _check_others(self) -> None:
        """Raise FeedFailed if among the records of others is a line of a feed. Also ProcessStopped."""
        self._checked = time.monotonic()
        if self._unchecked is None:
            return
        place = self._broker, self._topic.name, self._unchecked.offset + 1, self._known.offset + 1
        before, topic = self._unchecked.line, self._topic.name
        for line in retry_until_reachable(self._stop, lambda: list(lines_of_feeds(*place))):
            check_next(topic, line, before)
            before = line.number
        self._unchecked = None

    def _letter_arrived(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused(self._topic.letters, error)
            return
        self._delivered += self._letters.popleft()[1]  # they go to one partition, so they arrive in order
        self._heard = self._served

    def _refused(self, topic: str, error: KafkaError) -> None:
        if not self._closed and error.code() != KafkaError._PURGE_QUEUE:  # noqa: SLF001 # librdkafka's name
            self._fail(self._failed(topic, error))

    def _fail(self, failure: FeedFailed) -> None:
        if self._failure is None:
            self._failure = failure
            self._drop_waiting()

    def _failed(self, topic: str, error: KafkaError) -> FeedFailed:
        if is_denial(error):
            return FeedFailed(str(denied(self._broker.servers, topic, "write", feeder_user(self._node))))
        return FeedFailed(f"{self._broker.servers}: {topic}: {error.str()}")

    def _drop_waiting(self) -> None:
        self._producer.purge(in_queue=True, in_flight=False, blocking=False)


class _Place(NamedTuple):
    """A line and its offset."""

    line: int
    offset: int

    @property
    def others(self) -> int:
        """The number of records before it that are no lines."""
        return self.offset + 1 - self.line


def _milliseconds(line: Line) -> int:
    """Return Kafka's timestamp, rounded down so that the record stays in its slot."""
    # for the client 0 means now, so a record of 1970's first millisecond gets 1
    return NO_TIME if line.timestamp is None else max(1, round(line.timestamp * 1e6) // 1000)


@dataclass(frozen=True, slots=True)
class Fed:
    """A feed's result. The topic had `before` lines, and has `records` more. `counts` has their faults.

    `others`: the number of records of others on the topic.
    """

    topic: str
    before: int
    records: int
    counts: FaultCounts
    seconds: float
    stopped: bool
    others: int = 0


def feed(
    file: MeshFile, node: str, wanted: FeedOptions, stop: Stop, figures: FeedFigures | None = None
) -> Fed:
    """Feed a node's data topic until its source ends, or until asked to stop; waits for the broker.

    Raises MeshFileError if the request does not fit the source, ProcessStopped before the first line,
    BusError if broker or topic refuse. Acknowledged records stay in the topic.
    """
    broker, topics = file.brokers(node).data, file.data_topics(node)
    source = opened(file, node, wanted)
    reached(broker, stop)
    by_time = file.mesh.slots.by == "time"
    topic = retry_until_reachable(
        stop, lambda: feed_topic(broker, topics, feeder(topics), by_time=by_time, timed=source.timed)
    )
    pace = Pace(
        math.inf if source.live else most_ahead(file.mesh, topic.ahead),
        rate=wanted.rate,
        by_timestamps=wanted.timestamps,
        replay=not by_time,
    )
    fed = write(broker, node, topic, source, pace, stop, figures or FeedFigures(stop))
    if source.piped and not by_time and not (fed.stopped or fed.before or fed.records):
        raise file.refuse(("nodes", node, "source"), "standard input held no record")
    return fed


def write(
    broker: BrokerSettings,
    node: str,
    topic: FeedTopic,
    source: Opened,
    pace: Pace,
    stop: Stop,
    figures: FeedFigures,
) -> Fed:
    """Write the lines of a source that the topic lacks, at this pace. Raises as `feed` does."""
    lines, waiting = Lines(source, topic.largest), Interruptible(stop)
    if topic.held.others:
        foreign = counted(topic.held.others, "record")
        text = "%s: holds %s of others; goes on after line %s"
        LOGGER.warning(text, topic.name, foreign, f"{topic.line:,}", extra=LogEvent.FED.of())
    with waiting, figures.reading(live=True):
        letters = _skip(lines, topic)
    lines_left = None if source.most is None else max(0, source.most - topic.line)
    started = time.monotonic()
    writer = Writer(broker, node, topic, stop, figures)
    stopped = False
    try:
        writer.put_again(letters)
        with figures.shown(source.most) as tell:
            for batch in _batches(lines, lines_left, waiting, figures, live=source.ahead == 1):
                for line in batch:
                    if line.timestamp is not None or not pace.at_full_speed:
                        delay = pace.delay(line.timestamp, time.time(), time.monotonic())
                        if delay > 0.0:
                            writer.sleep(delay)
                            tell(topic.line + writer.acknowledged, writer.counts.malformed)
                    writer.put(takeable(line, time.time() + topic.ahead) if source.live else line)
                if source.is_idle():  # figures are of all lines while the source waits for its writer
                    writer.finish()
                tell(topic.line + writer.acknowledged, writer.counts.malformed)
            writer.finish()
    except ProcessStopped:
        stopped = True
    finally:
        writer.close()
    seconds = time.monotonic() - started
    return Fed(topic.name, topic.line, writer.acknowledged, writer.counts, seconds, stopped, writer.others)


def takeable(line: Line, latest: float) -> Line:
    """Return the line, without its time if the topic does not accept that time.

    The line is in no slot then.
    """
    if line.timestamp is None or line.timestamp <= latest:
        return line
    return line._replace(timestamp=None)


def _skip(lines: Lines, topic: FeedTopic) -> list[bytes]:
    """Skip the lines that the topic has. Return their dead letters that were lost when a feed was killed.

    Raises FeedFailed unless the topic has the first of these lines.
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
    if not last or (last[0].number, last[0].mark) != (topic.line, topic.held.mark):
        text = f"{topic.name}: the {counted(topic.line, 'line')} that it holds are not the first of these"
        raise FeedFailed(f"{text}: {ANEW}")
    return letters


def _batches(
    lines: Lines, left: int | None, waiting: Interruptible, figures: FeedFigures, *, live: bool
) -> Iterator[list[Line]]:
    """Yield the lines, `left` at most, in the batches in which they are read. Raises ProcessStopped.

    `live`: a read may wait for the source's writer.
    """
    while left is None or left > 0:
        with waiting, figures.reading(live=live):
            batch = lines.batch()
        if not batch:
            return
        yield batch if left is None else batch[:left]
        left = None if left is None else left - len(batch)


# Feeds an owner's set of records to its topic.
#
# No record of a set may be missing, and no line of a topic can be corrected. So the whole file is checked
# before its first line is sent, and there are no dead letters.


def feed_set(
    file: CollaborationFile,
    owner: str,
    path: str | None,
    rate: float | None,
    stop: Stop,
    figures: FeedFigures,
) -> Fed:
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
        limit_text = f"must be at most {topic.largest:,}, which the topic takes"
        raise FeedFailed(f"{topic.name}: a record has {longest:,} bytes: {limit_text}")
    values, decoder = _read(on_file, owner)
    source = Source((RawRecord(value) for value in values), decoder)
    feed_source = Opened(source, timed=False, most=file.mesh.owners[owner].records, time_of=None)
    return write(broker, owner, topic, feed_source, Pace(0.0, rate=rate), stop, figures)


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
