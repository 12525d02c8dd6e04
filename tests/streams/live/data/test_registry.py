"""A node's schema registry: what it denies, and that it is away, holds up no record for another's id."""

import asyncio
import json
import logging
import re
import struct
import time
from threading import Event
from threading import enumerate as enumerate_threads
from types import SimpleNamespace

import pytest

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots
from streams.bus.bus import Denied, Unreachable
from streams.bus.registry import Definition, SchemaRegistry
from streams.codec.topics import DataTopics
from streams.live.data import registry as watching
from streams.live.data.registry import registry_watch
from streams.live.data.stream import DataStream
from streams.mesh.settings.brokers import RegistrySettings
from streams.mesh.settings.node import TopicSettings
from streams.records import avro
from streams.records.decoder import SchemaDecoder
from streams.records.messages import Messages
from streams.records.record import WholeMessage
from tests.support.brokers.avro import need_fastavro, record
from tests.support.brokers.data_streams import numbers
from tests.support.brokers.registry import stub_registry

FLAT = record(x="double", y="int")
UNREADABLE = [0.0]
"""What a slot holds of a record that cannot be read."""
LOG = logging.getLogger("mirrormesh.node.a")


@pytest.fixture(autouse=True)
def _extra(monkeypatch):
    need_fastavro()
    monkeypatch.setattr(watching, "EVERY", 0.05)


@pytest.fixture
def registry():
    """A registry that knows the schema 7."""
    with stub_registry() as stub:
        stub.schemas[7] = FLAT
        yield stub


def settings(url, features=None, **user):
    schema = {"features": features or {"x": "number"}, "label": {"column": "y"}}
    tree = {
        "kind": "topic",
        "topic": "t",
        "format": "avro",
        "schema": schema,
        "registry": {"url": url} | user,
    }
    return TopicSettings.model_validate(tree)


def framed(number, x):
    return b"\0" + number.to_bytes(4, "big") + struct.pack("<d", x) + b"\2"


class Reading:
    """A node's stream of records by a registry, one a slot or more."""

    def __init__(self, source, size=1, timeout=None):
        self.decoder = SchemaDecoder(source.record, Messages(source))
        self.watch = registry_watch(source, self.decoder, LOG)
        topics = DataTopics("m", "a")
        slots = lambda: CountSlots(size)  # noqa: E731
        self.stream = DataStream(topics, "r", slots, self.decoder, timeout, None, source, self.watch)
        self.closed = asyncio.Queue()
        self.stream.begin((), self.closed.put_nowait, lambda: None).begin({0: (0, 10**6)})
        self.stream.open_slot(OpenSlot(1, ()))
        self.round = self.offset = 0

    def take(self, *values):
        """Take a fetch of messages, in a task of its own."""
        arrivals = [Arrival(0, self.offset + k, 0.0, value) for k, value in enumerate(values)]
        self.offset += len(values)
        return asyncio.ensure_future(self.stream.take(arrivals))

    async def slot(self):
        """The records of the next slot that closes."""
        slot = await self.closed.get()
        self.round += 1
        self.stream.open_slot(OpenSlot(self.round + 1, slot.position))
        return numbers(slot)


def run(work):
    """Run it to its end in a loop."""
    return asyncio.run(asyncio.wait_for(work, 60))


async def until(condition):
    """Wait for a condition, however long."""
    while not condition():
        await asyncio.sleep(0.01)


def reading(work):
    """Run a test with a stream."""

    async def whole():
        stream = None
        try:
            stream = await work(Reading)
        finally:
            if stream is not None:
                stream.stream.sum_up()

    run(whole())


def test_records_are_read_by_the_schemas_that_they_name(registry):
    async def work(new):
        node = new(settings(registry.url))
        node.take(framed(7, 1.0), framed(7, 2.0))
        assert [await node.slot(), await node.slot()] == [[1.0], [2.0]]
        node.take(framed(7, 3.0))
        assert await node.slot() == [3.0]
        assert registry.numbers == [7]
        return node

    reading(work)


def test_an_id_that_the_registry_denies_is_asked_for_once(registry):
    async def work(new):
        node = new(settings(registry.url))
        for k in range(1, 4):
            node.take(framed(99, 5.0), framed(7, k))
            assert [await node.slot(), await node.slot()] == [UNREADABLE, [k]]
        assert sorted(registry.numbers) == [7, 99]
        assert str(node.decoder.fault(framed(99, 0.0))) == "of a schema that the registry denies"
        return node

    reading(work)


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_while_the_registry_is_away_no_record_is_taken_in(registry, status, caplog):
    """Neither one whose schema is known: nobody can tell by a slot which schema it names."""

    async def work(new):
        node = new(settings(registry.url))
        node.take(framed(7, 1.0))
        assert await node.slot() == [1.0]
        registry.answer = lambda path: status
        await until(lambda: not node.watch.answers)
        tasks = [node.take(framed(7, 2.0)), node.take(framed(8, 3.0))]
        looks = registry.looks()
        await until(lambda: registry.looks() > looks + 3)
        assert node.closed.empty()
        assert not any(task.done() for task in tasks)
        assert registry.numbers == [7]  # an id is not asked for meanwhile
        registry.schemas[8] = FLAT
        registry.answer = lambda path: None
        assert sorted([*await node.slot(), *await node.slot()]) == [2.0, 3.0]
        return node

    with caplog.at_level("INFO"):
        reading(work)
    away, again = [line.getMessage() for line in caplog.records if line.name == LOG.name]
    text = rf"{registry.url}: the schema registry is away \(HTTP {status}\): no records are taken in until"
    assert re.match(text, away)
    assert again == "the schema registry answers again"


def test_a_registry_that_is_gone_is_waited_for(registry):
    async def work(new):
        node = new(settings(registry.url))
        port = registry.server_port
        registry.stop()
        await until(lambda: not node.watch.answers)
        node.take(framed(7, 1.0))
        with stub_registry(port=port) as other:
            other.schemas[7] = FLAT
            assert await node.slot() == [1.0]
        return node

    reading(work)


def test_an_id_at_which_the_registry_fails_is_asked_for_once_and_denied_after_one_look(registry):
    registry.answer = lambda path: 500 if path.endswith("/8") else None

    async def work(new):
        node = new(settings(registry.url))
        node.take(framed(8, 5.0), framed(7, 2.0))
        assert [await node.slot(), await node.slot()] == [UNREADABLE, [2.0]]
        node.take(framed(8, 5.0), framed(7, 3.0))
        assert [await node.slot(), await node.slot()] == [UNREADABLE, [3.0]]
        assert registry.numbers.count(8) == 1
        place = next(k for k, path in enumerate(registry.asked) if path.endswith("/8"))
        assert any(path.endswith("/types") for path in registry.asked[place:])
        assert str(node.decoder.fault(framed(8, 0.0))) == "of a schema that the registry does not give"
        assert node.watch.answers
        return node

    reading(work)


def test_an_id_at_which_the_registry_hangs_closes_no_slot_empty(registry):
    """The time-out of the slot is over long before the request is."""
    release = Event()
    registry.answer = lambda path: release.wait() and None if path.endswith("/8") else None

    async def work(new):
        node = new(settings(registry.url), timeout=0.2)
        task = asyncio.ensure_future(node.stream.expire())
        node.take(framed(8, 5.0), framed(7, 2.0), framed(7, 3.0))
        assert [await node.slot() for _ in range(3)] == [UNREADABLE, [2.0], [3.0]]
        assert registry.numbers.count(8) == 1
        assert node.watch.answers
        assert await node.slot() == []  # nothing is asked for any more
        task.cancel()
        return node

    try:
        reading(work)
    finally:
        release.set()


def test_while_the_registry_is_away_no_slot_closes_empty(registry):
    async def work(new):
        node = new(settings(registry.url), timeout=0.1)
        task = asyncio.ensure_future(node.stream.expire())
        registry.answer = lambda path: 503
        await until(lambda: not node.watch.flows)
        while not node.closed.empty():
            await node.slot()
        looks, start = registry.looks(), time.monotonic()
        await until(lambda: registry.looks() > looks + 5 and time.monotonic() > start + 0.5)
        assert node.closed.empty()
        registry.answer = lambda path: None
        assert await node.slot() == []
        task.cancel()
        return node

    reading(work)


@pytest.mark.parametrize("later", [7, 8])
def test_a_record_is_readable_or_not_as_it_arrives(registry, monkeypatch, later):
    """The id of a later record teaches the schema of an earlier one in an open slot, or does not."""
    monkeypatch.setattr(avro, "REMEMBERED", 0.5)

    async def work(new):
        node = new(settings(registry.url), size=2)
        await node.take(framed(8, 5.0))
        await until(lambda: node.decoder.schemas.is_unknown(8))
        registry.schemas[8] = FLAT
        node.take(framed(later, 6.0))
        assert await node.slot() == [*UNREADABLE, 6.0]
        node.take(framed(8, 7.0), framed(8, 8.0))
        assert await node.slot() == [7.0, 8.0]
        return node

    reading(work)


def test_a_stream_that_is_over_waits_for_no_registry(registry):
    async def work(new):
        node = new(settings(registry.url))
        registry.answer = lambda path: 503
        await until(lambda: not node.watch.answers)
        task = node.take(framed(7, 1.0))
        node.stream.end()
        await task
        return node

    reading(work)


def test_the_ids_of_keys_are_asked_for_where_keys_are_read(registry):
    registry.schemas[8] = record("Key", id="double")
    features = {"id": {"number": True, "from": {"key": "id"}}}

    async def work(new):
        node = new(settings(registry.url, features))
        key = b"\0\0\0\0\x08" + struct.pack("<d", 4.0)
        node.take(WholeMessage.of(framed(7, 1.0), key, ()))
        assert await node.slot() == [4.0]
        return node

    reading(work)


@pytest.mark.parametrize("status", [401, 403])
def test_one_that_refuses_is_told_at_the_start_in_one_line(registry, status):
    registry.answer = lambda path: status
    with pytest.raises(Denied, match=rf"{registry.url}: .*refuses these credentials \({status}\)$"):
        SchemaRegistry(settings(registry.url).registry).look()


def test_a_user_logs_in(monkeypatch):
    with stub_registry(user="reader:hush") as stub:
        for password, right in (("hush", True), ("wrong", False)):
            source = settings(stub.url, username="reader", password=password)
            watch = registry_watch(source, SchemaDecoder(source.record, Messages(source)), LOG)
            if right:
                watch.check()
            else:
                with pytest.raises(Denied) as refused:
                    watch.check()
                assert "hush" not in str(refused.value)
                assert password not in str(refused.value)


def test_one_that_is_away_at_the_start_is_waited_for(caplog):
    source = settings("http://127.0.0.1:9")
    watch = registry_watch(source, SchemaDecoder(source.record, Messages(source)), LOG)
    watch.check()
    assert not watch.answers
    assert "the schema registry is away (ConnectError)" in caplog.text


def client(url):
    return SchemaRegistry(RegistrySettings.model_validate({"url": url}))


@pytest.mark.parametrize("status", [400, 403, 404, 410, 422])
def test_what_is_an_id_s_own_fault(registry, status):
    registry.answer = lambda path: status if "/ids/" in path else None
    assert client(registry.url).schema(7) is None


@pytest.mark.parametrize("status", [401, 408, 429, 500, 503])
def test_what_is_no_id_s_fault(registry, status):
    registry.answer = lambda path: status if "/ids/" in path else None
    with pytest.raises(Unreachable):
        client(registry.url).schema(7)


def test_several_addresses_of_one_registry(registry):
    both = client(f"http://127.0.0.1:9, {registry.url}")
    both.look()
    assert both.schema(7) == Definition("AVRO", json.dumps(FLAT))


def test_a_registry_that_does_not_answer_in_time_is_away(registry, monkeypatch):
    monkeypatch.setattr("streams.bus.registry.PATIENCE", 0.2)
    registry.answer = lambda path: time.sleep(1.0)
    with pytest.raises(Unreachable, match=r"is away \((ReadTimeout|TimeoutError)\)"):
        client(registry.url).look()


def test_a_registry_that_drips_is_not_waited_for(registry, monkeypatch):
    """Each byte comes in time, and the last one does not."""
    monkeypatch.setattr("streams.bus.registry.PATIENCE", 0.4)
    registry.pace = 0.1
    with pytest.raises(Unreachable):
        client(registry.url).schema(7)


def test_a_schema_s_references_are_no_longer_asked_for_than_they_are_waited_for(monkeypatch):
    monkeypatch.setattr("streams.bus.registry.PATIENCE", 0.2)
    asked, bare = [], SimpleNamespace(references=None, schema_str="1")
    references = [SimpleNamespace(subject=f"s{k}", version=1) for k in range(100)]

    def get_version(*place):
        asked.append(place)
        time.sleep(0.05)
        return SimpleNamespace(schema=bare)

    slow = client("http://127.0.0.1:9")
    whole = SimpleNamespace(references=references, schema_str="2", schema_type=None)
    slow._client = SimpleNamespace(get_schema=lambda _: whole, get_version=get_version)
    threads = set(enumerate_threads())
    with pytest.raises(Unreachable):
        slow.schema(7)
    run(until(lambda: threads.issuperset(enumerate_threads())))
    assert len(asked) < len(references)
