"""A node's own stream: runs the Faust app in the caller's loop, and gives slots to the machine's thread.

Loading Faust takes half a second, so `serve` loads it last.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.machine.events import OpenSlot, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.slots import Arrival, Slots
from nodes.privacy.private import Private
from streams.codec.topics import DataTopics
from streams.live.data.collector import SlotCollector
from streams.live.data.start import DataFailed, Start, failure, patience
from streams.live.liveness import Pulse
from streams.mesh.settings.brokers import BrokerSettings
from streams.metrics.private import DataCounts
from streams.records.record import Decoder

if TYPE_CHECKING:
    from streams.live.data.app import PinnedApp
    from streams.live.data.pinned import PinnedThread

TICK = 0.02
"""Polling interval in seconds for slots that close by time, and slots that wait for the broker."""
PERIOD = 1.0
"""Polling interval in seconds for the lag, and seconds between signs of life."""
STOPPING = 1.5
"""Seconds that the app may take to start, and then to stop, once it is asked to stop."""


class DataStream:
    """The slots of one node process, from `data.<node>`.

    `timeout`: seconds after which an open slot by count closes empty; None: never. `state` is a folder for
    Faust; `web`: (address, port) of its web pages. `turning` beats in the loop of `serve`, and `reading` in
    that of the thread that reads the topic.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        node: str,
        slots: Callable[[], Slots[bytes]],
        decoder: Decoder,
        timeout: float | None,
        *,
        state: Path,
        web: tuple[str, int] | None,
    ) -> None:
        self._broker, self._node, self._state, self._web = broker, node, state, web
        self._topic = DataTopics(node).records
        self._collector = SlotCollector(slots, decoder, timeout, self._hand_on, self._make_room)
        self._closed: Callable[[SlotClosed], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = asyncio.Event()
        self.turning, self.reading = Pulse(), Pulse()
        self._lag: int | None = None

    @property
    def counts(self) -> Private[DataCounts]:
        """The counts of records."""
        return self._collector.counts

    @property
    def lag(self) -> Private[int | None]:
        """The number of records in the log not read yet; None while unknown."""
        return Private(self._lag)

    def open_slot(self, opened: OpenSlot) -> None:
        """Open a slot, in place of one still open. From any thread, also before `serve`."""
        self._collector.open(opened)

    async def serve(
        self, position: DataPosition | None, stopped: asyncio.Event, closed: Callable[[SlotClosed], None]
    ) -> None:
        """Read from `position` on (None: the topic's end) until `stopped`. Call it once the broker answers.

        `closed` gets each slot, in the thread that completes it. If `position` is below a log's start, it
        reads from the start. Raises DataFailed when it cannot continue.
        """
        from streams.live.data.app import data_app  # noqa: PLC0415 # loads Faust while the machine works

        self._loop, self._closed = asyncio.get_running_loop(), closed
        place = Start(self._topic, position, self._collector)
        app = data_app(self._broker, self._node, place, self._take, state=self._state, web=self._web)
        starting = asyncio.create_task(app.start())
        parts = (_run(app, starting), self._expire(), self._complete(app), self._watch(app), self._turn(app))
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(part) for part in (*parts, stopped.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lag = None
            await _stop(app, starting)
            self.turning.rest()
            self.reading.rest()
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None and not stopped.is_set():
                raise failure(self._broker.servers, self._topic, error) from None

    async def _take(self, arrival: Arrival[bytes]) -> None:
        try:
            blocked = self._collector.add(arrival)
        except Exception as error:  # noqa: BLE001 # Faust would log its text, which may hold a record
            raise DataFailed(f"{self._topic}: a record could not be taken: {type(error).__name__}") from None
        if blocked:
            await self._room.wait()
            self._room.clear()

    def _hand_on(self, slot: SlotClosed) -> None:
        if self._closed is not None:  # before `serve` no records can close a slot
            self._closed(slot)

    def _make_room(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                self._loop.call_soon_threadsafe(self._room.set)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._collector.left)
            self._collector.expire()

    async def _complete(self, app: "PinnedApp") -> None:
        """Close slots that depend on the ends of the logs."""
        while True:
            await asyncio.sleep(TICK)
            thread, now = _reader(app), time.time()
            if thread is None or not (self._collector.unplaced or self._collector.due(now)):
                continue
            with patience():
                ends = await thread.ends()
                if self._collector.unplaced:
                    self._collector.place(ends)
                    await thread.follow()
                else:
                    while not _reached(await thread.read(), ends):
                        await asyncio.sleep(TICK)
                    self._collector.settle(now)

    async def _turn(self, app: "PinnedApp") -> None:
        """Give signs of life: of this loop, and of the reading thread's."""
        while True:
            self.turning.beat()
            thread = _reader(app)
            if thread is not None:
                self.reading.begin()
                with suppress(RuntimeError):  # its loop is closed, as it stops
                    thread.thread_loop.call_soon_threadsafe(self.reading.beat)
            await asyncio.sleep(PERIOD)

    async def _watch(self, app: "PinnedApp") -> None:
        """Update the lag, and commit offsets for outside tools."""
        while True:
            thread = _reader(app)
            if thread is not None:
                lag = None
                with patience():
                    ends, read = await thread.ends(), await thread.read()
                    lag = sum(max(0, end - read[number]) for number, end in ends.items())
                    await thread.note(read)
                self._lag = lag
            await asyncio.sleep(PERIOD)


async def _run(app: "PinnedApp", starting: asyncio.Task[None]) -> None:
    """Wait until the app stops by itself. Raises its crash's reason."""
    await asyncio.shield(starting)
    await app.wait_until_stopped()
    raise app.crash_reason or DataFailed("Faust has stopped")


async def _stop(app: "PinnedApp", starting: asyncio.Task[None]) -> None:
    """Stop the app, once it has started: half started, its threads would stay."""
    await asyncio.wait([starting], timeout=STOPPING)
    starting.cancel()
    with suppress(TimeoutError):
        await asyncio.wait_for(app.stop(), STOPPING)
    await asyncio.gather(starting, return_exceptions=True)


def _reader(app: "PinnedApp") -> "PinnedThread | None":
    return app.reader if app.reader is not None and app.reader.pinned else None


def _reached(read: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(read[number] >= end for number, end in ends.items())
