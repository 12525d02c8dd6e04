"""A schema registry's client: whether it answers, and the schema of an id, with one-line errors.

A registry that does not answer, or answers with a server's error, counts as away, which is temporary. The
text of its answers is never passed on, as it may repeat the request.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from streams.bus.bus import Denied, Unreachable
from streams.bus.connection import shown
from streams.mesh.settings.brokers import RegistrySettings

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds in which a registry must have answered: a check, or a schema with all schemas that it refers to."""
_REFUSED = frozenset({401, 403})
_PASSING = frozenset({401, 408, 425, 429})
"""The statuses below 500 that are not due to the id."""
_MOST_REFERENCES = 100


class Definition(NamedTuple):
    """A schema: its type, its text, and the texts of the schemas it refers to, each behind those it needs."""

    kind: str
    text: str
    references: tuple[str, ...] = ()


class NoRegistryExtra(Exception):
    """A package that talks to a registry, or reads Avro, is missing."""


def need_extra() -> None:
    """Raise NoRegistryExtra if a package is missing."""
    try:
        import fastavro  # noqa: F401, PLC0415 # an extra
        from confluent_kafka import schema_registry  # noqa: F401, PLC0415 # as above
    except ImportError as error:
        text = f"needs {error.name}, which is not installed: pip install 'mirrormesh[registry]'"
        raise NoRegistryExtra(text) from None


class SchemaRegistry:
    """A registry. Use it from one thread at a time, and close it. It needs the extra."""

    def __init__(self, settings: RegistrySettings) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 # an extra

        timeout = PATIENCE / len(settings.url.split(","))  # one address that hangs leaves time for the next
        configuration: dict[str, Any] = {"url": settings.url, "timeout": timeout, "max.retries": 0}
        if settings.username is not None:
            configuration["basic.auth.user.info"] = f"{settings.username}:{shown(settings.password)}"
        if settings.ca is not None:
            configuration["ssl.ca.location"] = settings.ca
        self._url, self._client = settings.url, SchemaRegistryClient(configuration)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def look(self) -> None:
        """Check the registry by a request that needs no schema. Raises Unreachable, Denied."""
        try:
            _in_time(self._client.get_schema_types)
        except Exception as error:  # noqa: BLE001 # its client's, and those of the client's own client
            status = _status(error)
            if status in _REFUSED:
                raise Denied(
                    f"{self._url}: the schema registry refuses these credentials ({status})"
                ) from None
            raise self._away(error) from None

    def schema(self, number: int) -> Definition | None:
        """Return the schema of an id; None if the registry denies it. Raises Unreachable."""
        try:
            return _in_time(lambda: self._definition(number))
        except Exception as error:  # noqa: BLE001 # as above
            status = _status(error)
            if status is not None and 400 <= status < 500 and status not in _PASSING:
                return None
            raise self._away(error) from None

    def _definition(self, number: int) -> Definition:
        schema, references = self._client.get_schema(number), dict[tuple[str, int], str]()
        self._refer(schema, references, time.monotonic() + PATIENCE)
        return Definition(schema.schema_type or "AVRO", schema.schema_str or "", tuple(references.values()))

    def _refer(self, schema: Any, references: dict[tuple[str, int], str], until: float) -> None:
        """Put the schemas that this one refers to into `references`, each behind those that it needs itself.

        Raises TimeoutError once the caller has stopped waiting.
        """
        for reference in schema.references or ():
            place = reference.subject, reference.version
            if time.monotonic() > until:
                raise TimeoutError
            if place not in references and len(references) < _MOST_REFERENCES:
                references[place] = ""  # it may refer to itself
                further = self._client.get_version(*place).schema
                self._refer(further, references, until)
                del references[place]
                references[place] = further.schema_str or ""

    def _away(self, error: Exception) -> Unreachable:
        status = _status(error)
        cause = type(error).__name__ if status is None else f"HTTP {status}"
        return Unreachable(f"{self._url}: the schema registry is away ({cause})")


def _in_time(ask: Callable[[], T]) -> T:
    """Return what a request returns, or raise what it raises; TimeoutError after `PATIENCE` seconds.

    The client's own time-out applies to each wait for bytes, so an answer that trickles in would never time
    out.
    """
    answer = Future[T]()

    def work() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 # it is raised where the answer is waited for
            answer.set_exception(error)

    Thread(target=work, name="schema-registry-request", daemon=True).start()
    return answer.result(PATIENCE)


def _status(error: Exception) -> int | None:
    """Return the status of the registry's answer; None if there was no answer, or an unreadable one."""
    status = getattr(error, "http_status_code", None)
    return status if isinstance(status, int) else None
