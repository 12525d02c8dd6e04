"""What the data side can fail of, and what it only waits for. Nothing said here holds any of a record."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka.errors import (  # type: ignore[import-untyped] # it ships no types
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from streams.bus import BusError


class DataFailed(Exception):
    """The data side of the process is broken."""


def failure(topic: str, error: BaseException) -> DataFailed:
    """Return the error in words that may be logged: a client's own may hold what it has read."""
    if isinstance(error, DataFailed):
        return error
    if isinstance(error, BusError):
        return DataFailed(str(error))
    return DataFailed(f"{topic}: {error if isinstance(error, OSError) else type(error).__name__}")


@contextmanager
def patience() -> Iterator[None]:
    """Pass over that the broker is away: it is asked again. What it denies is raised."""
    try:
        yield
    except (GroupAuthorizationFailedError, TopicAuthorizationFailedError):
        raise
    except (KafkaError, TimeoutError):
        pass
