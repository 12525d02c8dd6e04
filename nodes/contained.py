"""Contains a user's code: whatever it raises ends at the call."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self


class Containing(Protocol):
    """Makes the context for calls of a user's code. The context reports the type of what they raise."""

    def __call__(self, tell: Callable[[str], None]) -> "Contained":
        """Return the context of one call."""


type_name: Callable[[type], str] = vars(type)["__name__"].__get__
"""Reads a type's name without asking its metaclass, which may be a user's code too."""


class Contained:
    """A context that suppresses every exception, SystemExit too. `tell` gets the name of its type.

    `tell` never gets the message or traceback, as they may hold a record.
    """

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is not None:
            self._tell(type_name(kind))
        return True
