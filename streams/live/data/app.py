"""The Faust app of a node: one agent on its data topic, with no state at the broker that is ever read.

tests/kafka/test_data_stream.py shows why Faust's defaults are overridden.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import faust
from aiokafka.errors import ConsumerStoppedError  # type: ignore[import-untyped] # it ships no types
from faust.auth import Credentials
from faust.streams import Stream
from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types import TP, StreamT
from faust.types.transports import TransportT
from mode import ServiceT
from mode.supervisors import CrashingSupervisor

from nodes.machine.slots import Arrival
from streams.bus.connection import shown, tls_context
from streams.codec.topics import DataTopics
from streams.live.data.pinned import PinnedThread, Position
from streams.mesh.settings.brokers import BrokerSettings
from streams.state.folder import StateFolder

Taken = Callable[[Arrival[bytes]], Awaitable[None]]
"""Takes a record; the next one comes when this one is done."""


class PinnedApp(faust.App):
    """A Faust app on one topic, which it reads in a pinned thread from `place` on."""

    topic_name: str
    place: Position
    reader: PinnedThread | None = None
    """The thread, once there is one."""

    def _new_transport(self) -> TransportT:
        return _Transport(self.conf.broker_consumer, self)


class _Consumer(Consumer):
    def _new_consumer_thread(self) -> PinnedThread:
        app = cast("PinnedApp", self.app)
        app.reader = thread = PinnedThread(self, loop=self.loop, beacon=self.beacon)
        thread.topic, thread.place = app.topic_name, app.place
        return thread

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Hand on fetched records, without Faust's bookkeeping of acks: 31 us a record instead of 71."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                async for _, message in self.getmany(timeout=1.0):
                    await self.callback(message)
        except (asyncio.CancelledError, ConsumerStoppedError):
            if not self.app.should_stop:
                raise

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing, as the sender waits for room. Faust would pause the partition, and sleep for 1 s."""


class _Transport(Transport):
    Consumer = _Consumer


def data_app(
    broker: BrokerSettings,
    node: str,
    place: Position,
    take: Taken,
    *,
    state: Path,
    web: tuple[str, int] | None,
) -> PinnedApp:
    """Return the app that passes each record of the node's data topic, from `place` on, to `take`.

    Its group, named like the topic, has no members. `state` must exist. `web` is (address, port).
    """
    name = DataTopics(node).records
    app = PinnedApp(
        name,
        broker=[f"kafka://{server.strip()}" for server in broker.servers.split(",")],
        broker_credentials=_credentials(broker),
        datadir=str(StateFolder(state).faust),
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=1,
        consumer_auto_offset_reset="none",
        stream_wait_empty=False,
        stream_buffer_maxsize=64,  # records of up to 1 MiB each
        broker_max_poll_records=256,
        agent_supervisor=CrashingSupervisor,
        **_web(web),
    )
    app.topic_name, app.place = name, place
    topic = app.topic(
        name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", acks=False
    )

    async def slots(stream: StreamT[bytes]) -> None:
        records = cast("Stream[bytes]", stream).noack()
        async for _ in records:
            event = records.current_event
            if event is not None:
                message = event.message
                await take(
                    Arrival(message.partition, message.offset, message.timestamp, message.value or b"")
                )

    app.agent(topic, name="slots", concurrency=1)(slots)
    return app


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
        return {"web_enabled": False}  # by default it is open to all, on one port for all nodes
    address, port = web
    return {
        "web_enabled": True,
        "web_bind": address,
        "web_host": address,
        "web_port": port,
        "web_tables_enabled": False,  # they would show table values to everyone
        "web_router_enabled": False,
    }
