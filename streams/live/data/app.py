"""The Faust app of a process, with an agent on each node's data topic. It reads no state of the broker.

tests/kafka/test_data_stream.py shows why Faust's defaults are overridden.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import faust
from aiokafka import ConsumerRecord  # type: ignore[import-untyped] # it ships no types
from aiokafka.errors import ConsumerStoppedError  # type: ignore[import-untyped] # as above
from faust.auth import Credentials
from faust.streams import Stream
from faust.transport.drivers.aiokafka import Consumer, Producer, Transport
from faust.types import TP, AppT, Message, StreamT
from mode import ServiceT
from mode.supervisors import CrashingSupervisor

from nodes.machine.slots import Arrival
from streams.bus.connection import shown, tls_context
from streams.codec.topics import DataTopics
from streams.live.data.letters import DataLetters
from streams.live.data.pinned import PinnedThread, Position, wait_to_connect
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.record import WholeMessage
from streams.state.folder import StateFolder

Taken = Callable[[Sequence[Arrival[bytes]]], Awaitable[None]]
"""Handles the records of a fetch; the topic's next fetch begins when the call returns."""
SCHEME = "mirrormesh"
"""The name of the transport among the entry points `faust.transports`, in pyproject.toml."""
FETCHED = 512
"""Records of one fetch. More would block the loop for longer, and hardly save time."""
FETCHED_BYTES = 2**20
"""Bytes of a partition in the broker's answer. A larger batch is sent whole, and alone."""
BUFFERED = 1
"""Fetches of a topic that wait for its agent."""
HELD = 1_024
"""`BUFFERED` for several topics. Never reached, as no partition has two fetches under way."""


class DataPart(NamedTuple):
    """One node's part of an app: its topics, its group, its start position, and the handler of
    its records.
    """

    topics: DataTopics
    group: str
    place: Position
    take: Taken
    whole: bool = False
    """Whether records' keys and headers are read too."""


class PinnedApp(faust.App):
    """A Faust app on the topics of `places`, which it reads in a pinned thread."""

    places: Mapping[str, Position]
    letters: DataLetters
    reader: PinnedThread | None = None
    """The thread that reads, once it exists."""


class _Consumer(Consumer):
    def _new_consumer_thread(self) -> PinnedThread:
        app = cast("PinnedApp", self.app)
        app.reader = thread = PinnedThread(self, loop=self.loop, beacon=self.beacon)
        thread.places, thread.letters = app.places, app.letters
        return thread

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Pass on fetched records without Faust's bookkeeping of acks, in 31 us a record instead of 71."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                async for _, message in self.getmany(timeout=1.0):
                    await self.callback(message)
        except (asyncio.CancelledError, ConsumerStoppedError):
            if not self.app.should_stop:
                raise

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing, as the sender waits for room. Faust would pause the partition, and sleep for 1 s."""


class _Fetches(faust.Schema[Any, Any]):
    """Faust's codec: a message of the stream is the list of a fetch's records, unchanged."""

    def loads_key(self, *_: Any, **__: Any) -> None:
        """Return nothing: each record has its own key."""

    def loads_value(self, app: AppT, message: Message, **_: Any) -> Any:  # noqa: ARG002 # as Faust calls it
        """Return the records."""
        return message.value


class _Producer(Producer):
    """Faust's, which starts although nothing is written with it."""

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        producer = super()._new_producer(transactional_id)
        wait_to_connect(self, producer.client, cast("PinnedApp", self.app).places)
        return producer


class PinnedTransport(Transport):
    """Faust's transport for brokers whose scheme is `SCHEME`: aiokafka with the pinned thread."""

    Consumer, Producer = _Consumer, _Producer


def data_app(
    broker: BrokerSettings,
    parts: Sequence[DataPart],
    *,
    letters: BrokerSettings,
    state: Path,
    web: tuple[str, int] | None,
) -> PinnedApp:
    """Return the app that passes each record of the nodes' data topics, from its place on, to `take`.

    The app's group is that of the first node. It is named after the app, and has no members. `state` must
    exist. `web` is (address, port).
    """
    many_topics = len(parts) > 1
    app = PinnedApp(
        parts[0].group,
        broker=[f"{SCHEME}://{server.strip()}" for server in broker.servers.split(",")],
        broker_credentials=_credentials(broker),
        datadir=str(StateFolder(state).faust),
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=1,
        consumer_auto_offset_reset="none",
        stream_wait_empty=False,
        stream_buffer_maxsize=HELD if many_topics else BUFFERED,  # a full buffer would delay all other topics
        broker_max_poll_records=FETCHED,
        consumer_max_fetch_size=FETCHED_BYTES,
        agent_supervisor=CrashingSupervisor,
        **_web(web),
    )
    app.places = {part.topics.records: part.place for part in parts}
    app.letters = DataLetters(letters, {part.topics.records: part.topics.dead_letters for part in parts})
    for part in parts:
        _add_agent(app, part.topics.records, part.take, _whole_arrival if part.whole else _arrival)
    return app


def _add_agent(
    app: PinnedApp, name: str, take: Taken, arrival: Callable[[ConsumerRecord], Arrival[bytes]]
) -> None:
    topic = app.topic(name, schema=_Fetches(), acks=False)

    async def slots(stream: StreamT[Sequence[ConsumerRecord]]) -> None:
        async for records in cast("Stream[Sequence[ConsumerRecord]]", stream).noack():
            await take([arrival(record) for record in records])
            if app.reader is not None:
                app.reader.taken()

    app.agent(topic, name=f"slots of {name}", concurrency=1)(slots)


def _arrival(record: ConsumerRecord) -> Arrival[bytes]:
    return Arrival(record.partition, record.offset, record.timestamp / 1_000.0, record.value or b"")


def _whole_arrival(record: ConsumerRecord) -> Arrival[bytes]:
    message = WholeMessage.of(record.value, record.key, record.headers)
    return _arrival(record)._replace(value=message)


def _credentials(broker: BrokerSettings) -> Credentials | None:
    context = tls_context(broker)
    if not broker.users:
        return None if context is None else faust.SSLCredentials(context)
    return faust.SASLCredentials(
        username=broker.username,
        password=shown(broker.password),
        ssl_context=context,
        mechanism=broker.mechanism.upper(),
    )


def _web(web: tuple[str, int] | None) -> dict[str, Any]:
    if web is None:
        return {"web_enabled": False}  # by default the pages are open to all, on one port for all nodes
    address, port = web
    return {
        "web_enabled": True,
        "web_bind": address,
        "web_host": address,
        "web_port": port,
        "web_tables_enabled": False,  # they would show table values to everyone
        "web_router_enabled": False,
    }
