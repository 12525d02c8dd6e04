"""Watches a node's schema registry, and asks it for the schemas that records name.

While the registry is away the node takes in no records, whichever schemas they name: a look once a second,
which names no schema, decides that alone. So one record's id can hold up no other record, but for the time of
one request, or of a few looks where the registry answers them and fails on the id: then the id's records are
unreadable for now.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Condition, Event, Thread

from streams.bus.bus import BusError, Unreachable
from streams.bus.registry import SchemaRegistry
from streams.mesh.settings.node import TopicSettings
from streams.records.avro import Schemas
from streams.records.decoder import SchemaDecoder
from streams.records.record import Decoder

EVERY = 1.0
"""Seconds between two looks."""
TRIES = 3
"""Requests for an id that fail, with a look between two of them that does not."""
NOT_GIVEN = "of a schema that the registry does not give"


def registry_watch(
    source: TopicSettings | None, decoder: Decoder, log: logging.Logger
) -> "RegistryWatch | None":
    """Return the watch of a source's registry; None if its records need none."""
    schemas = decoder.schemas if isinstance(decoder, SchemaDecoder) else None
    if schemas is None or source is None or source.registry is None:
        return None
    return RegistryWatch(SchemaRegistry(source.registry), schemas, log)


class RegistryWatch:
    """Looks at a registry in a thread of its own. Its schemas are put into `schemas`."""

    def __init__(self, registry: SchemaRegistry, schemas: Schemas, log: logging.Logger) -> None:
        self._registry, self._schemas, self._log = registry, schemas, log
        self._woken, self._stopped = Condition(), Event()
        self._wanted: dict[int, int] = {}  # ids, with their failures
        self._failed = set[int]()  # since the last look
        self._changed: Callable[[], None] = lambda: None
        self.answers = True
        """Whether the registry answered the last look."""

    def is_there(self) -> bool:
        """Return whether the registry answered the last look."""
        return self.answers

    def start(self) -> None:
        """Begin to look; call it in the loop that waits with `ready`."""
        loop, self._event = asyncio.get_running_loop(), asyncio.Event()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._event.set)

        self._changed = changed
        Thread(target=self._work, name="schema-registry", daemon=True).start()

    def stop(self) -> None:
        """Look no more. A request under way is not waited for."""
        self._stopped.set()
        with self._woken:
            self._woken.notify()

    async def ready(self, messages: Iterable[bytes], is_over: Callable[[], bool]) -> None:
        """Wait until the registry answers and all schemas that messages name are known, or all is over."""
        numbers = self._schemas.unknown(messages)
        while not is_over():
            self._event.clear()
            numbers = {number for number in numbers if self._schemas.is_unknown(number)}
            if self.answers and not numbers:
                return
            with self._woken:
                self._wanted |= {number: 0 for number in numbers if number not in self._wanted}
                self._woken.notify()
            await self._event.wait()

    def _work(self) -> None:
        due = 0.0
        try:
            while not self._stopped.is_set():
                if time.monotonic() >= due:
                    self._look()
                    due = time.monotonic() + EVERY
                if self.answers:
                    self._ask(due)
                self._changed()
                with self._woken:
                    if not self._stopped.is_set() and not (
                        self.answers and self._wanted.keys() - self._failed
                    ):
                        self._woken.wait(EVERY)
        finally:
            self._registry.close()

    def check(self) -> None:
        """Look for the first time. Raises Denied if the registry refuses these credentials."""
        try:
            self._registry.look()
        except Unreachable as error:
            self._away(error)

    def _look(self) -> None:
        """Look whether the registry answers, and log when that changes. One that refuses is away too."""
        try:
            self._registry.look()
        except BusError as error:
            self._away(error)
        else:
            if not self.answers:
                self._log.info("the schema registry answers again")
            self.answers = True
        self._failed.clear()

    def _away(self, error: BusError) -> None:
        if self.answers:
            self._log.warning("%s: no records are taken in until it answers", error)
        self.answers = False

    def _ask(self, until: float) -> None:
        """Ask for what is wanted, until then; for an id that fails again once a look has succeeded."""
        with self._woken:
            numbers = [number for number in self._wanted if number not in self._failed]
        for number in numbers:
            if time.monotonic() >= until:  # no number of ids puts off a look
                return
            try:
                self._schemas.learn(number, self._registry.schema(number))
            except BusError:
                self._failed.add(number)
                self._wanted[number] += 1
                if self._wanted[number] < TRIES:
                    continue
                self._schemas.refuse(number, NOT_GIVEN)
            with self._woken:
                del self._wanted[number]
