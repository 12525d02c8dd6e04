"""Watches a node's schema registry, and asks it for the schemas that records name.

While the registry is away the node accepts no records, whichever schemas they name. Only a check once a
second, which names no schema, decides whether the registry is away. So one record's schema id can delay other
records only for the time of one request, and of one check if the request fails. If the registry answers that
check, records with this id count as unreadable for now. Neither delay closes a slot, as the time-outs of
slots stand still while records are held up.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Condition, Event, Thread

from streams.bus.bus import BusError, Unreachable
from streams.bus.registry import SchemaRegistry
from streams.log_events import LogEvent
from streams.mesh.settings.node import TopicSettings
from streams.records.avro import SchemaLookup, Schemas
from streams.records.decoder import SchemaDecoder
from streams.records.record import Decoder

EVERY = 1.0
"""Seconds between two checks."""


def registry_watch(
    source: TopicSettings | None, decoder: Decoder, log: logging.Logger
) -> "RegistryWatch | None":
    """Return the watch of a source's registry; None if its records need none."""
    schemas = decoder.schemas if isinstance(decoder, SchemaDecoder) else None
    if schemas is None or source is None or source.registry is None:
        return None
    return RegistryWatch(SchemaRegistry(source.registry), schemas, log)


class RegistryWatch:
    """Polls a registry in a thread of its own, and puts its schemas into `schemas`."""

    def __init__(self, registry: SchemaRegistry, schemas: Schemas, log: logging.Logger) -> None:
        self._registry, self._schemas, self._log = registry, schemas, log
        self._lookup = SchemaLookup(registry, schemas)
        self._woken, self._stopped = Condition(), Event()
        self._wanted = dict[int, None]()  # ids, in order
        self._changed: Callable[[], None] = lambda: None
        self._due = 0.0
        self._waiting, self._flowing = 0, asyncio.Event()
        self._pause: tuple[float | None, float] = None, 0.0  # since when, and for how long before that
        self.answers = True
        """Whether the registry answered the last check."""

    def is_there(self) -> bool:
        """Return whether the registry answered the last check."""
        return self.answers

    def start(self) -> None:
        """Begin to poll; call it in the loop that waits with `ready`."""
        loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        self._mark()

        def mark() -> None:
            self._mark()
            self._event.set()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(mark)

        self._changed = changed
        Thread(target=self._work, name="schema-registry", daemon=True).start()

    def stop(self) -> None:
        """Stop polling, without waiting for a request under way."""
        self._stopped.set()
        with self._woken:
            self._woken.notify()

    async def ready(self, messages: Iterable[bytes], is_over: Callable[[], bool]) -> None:
        """Wait until the registry answers and all schemas that messages name are known, or until `stop`."""
        numbers = self._schemas.unknown(messages)
        self._waiting += 1
        try:
            while not is_over():
                self._event.clear()
                numbers = {number for number in numbers if self._schemas.is_unknown(number)}
                if self.answers and not numbers:
                    return
                self._mark()
                with self._woken:
                    self._wanted |= dict.fromkeys(numbers)
                    self._woken.notify()
                await self._event.wait()
        finally:
            self._waiting -= 1
            self._mark()

    def settled(self, message: bytes) -> bytes:
        """Return a ready message as it is stored. Whether it is readable does not change later."""
        return self._schemas.settled(message)

    @property
    def flows(self) -> bool:
        """Whether no records are held up."""
        return self._flowing.is_set()

    async def flowing(self) -> None:
        """Wait until no records are held up."""
        await self._flowing.wait()

    def clock(self) -> float:
        """Return seconds that stand still while records are held up. From any thread."""
        since, before = self._pause
        return (time.monotonic() if since is None else since) - before

    def _mark(self) -> None:
        """Let the clock run or stand still; call it in the loop."""
        flows, (since, before) = self.answers and not self._waiting, self._pause
        if flows and since is not None:
            self._pause = None, before + time.monotonic() - since
        elif not flows and since is None:
            self._pause = time.monotonic(), before
        (self._flowing.set if flows else self._flowing.clear)()

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                if time.monotonic() >= self._due:
                    self._look()
                if self.answers:
                    self._ask()
                self._changed()
                with self._woken:
                    if not self._stopped.is_set() and not (self.answers and self._wanted):
                        self._woken.wait(EVERY)
        finally:
            self._registry.close()

    def check(self) -> None:
        """Do the first check. Raises Denied if the registry refuses these credentials."""
        try:
            self._registry.look()
        except Unreachable as error:
            self._away(error)

    def _look(self) -> None:
        """Check whether the registry answers, and log a change. A registry that refuses counts as away."""
        try:
            self._registry.look()
        except BusError as error:
            self._away(error)
        else:
            if not self.answers:
                self._log.info("the schema registry answers again", extra=LogEvent.REGISTRY_BACK.of())
            self.answers = True
        self._due = time.monotonic() + EVERY

    def _away(self, error: BusError) -> None:
        if self.answers:
            text = "%s: no records are taken in until it answers"
            self._log.warning(text, error, extra=LogEvent.REGISTRY_AWAY.of())
        self.answers = False

    def _ask(self) -> None:
        """Request wanted schemas until a check is due. A failed id is refused if a check then succeeds."""
        with self._woken:
            numbers = list(self._wanted)
        for number in numbers:
            if self._stopped.is_set() or time.monotonic() >= self._due:  # no number of ids delays a check
                return
            try:
                self._lookup.ask(number)
            except BusError as error:  # the id is not to blame: it is asked for again
                self._away(error)
                self._due = time.monotonic() + EVERY
                return
            with self._woken:
                del self._wanted[number]
            self._changed()  # later ids may take longer than this one is denied
