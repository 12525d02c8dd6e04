"""The Faust app of a node: one agent on its data topic, and nothing kept at the broker that is ever read.

What Faust's defaults would do otherwise, and why not here, is in tests/kafka/test_data_stream.py.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import faust
from faust.streams import Stream
from faust.types import StreamT
from mode.supervisors import CrashingSupervisor

from nodes.slots import Arrival
from streams.data.pinned import PinnedApp, Position
from streams.mesh_file.settings.node import BrokerSettings
from streams.topics import DataTopics

Taken = Callable[[Arrival[bytes]], Awaitable[None]]
"""Takes a record; the next one comes when it is done."""


def data_app(
    broker: BrokerSettings,
    node: str,
    position: Position,
    take: Taken,
    *,
    state: Path,
    web: tuple[str, int] | None,
) -> PinnedApp:
    """Return the app that hands each record of the node's data topic from `position` on to `take`.

    Its group, named as the topic, has no members. `state` must be there. `web` is (address, port).
    """
    name = DataTopics(node).records
    app = PinnedApp(
        name,
        broker=[f"kafka://{server.strip()}" for server in broker.servers.split(",")],
        broker_credentials=_credentials(broker),
        datadir=str(state / "faust"),
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
    app.topic_name, app.position = name, position
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


def _credentials(broker: BrokerSettings) -> faust.SASLCredentials | None:
    if broker.username is None or broker.password is None:
        return None
    return faust.SASLCredentials(
        username=broker.username, password=broker.password.get_secret_value(), mechanism="SCRAM-SHA-512"
    )


def _web(web: tuple[str, int] | None) -> dict[str, Any]:
    if web is None:
        return {"web_enabled": False}  # the default is open to all, on one port for every node
    address, port = web
    return {
        "web_enabled": True,
        "web_bind": address,
        "web_host": address,
        "web_port": port,
        "web_tables_enabled": False,  # the values of tables, for everyone
        "web_router_enabled": False,
    }
