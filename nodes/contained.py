"""A user's code, called without trust: whatever it raises ends where it is called."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self


class Containing(Protocol):
    """Makes the context that a user's code is called in; it tells the type of what is raised."""

    def __call__(self, tell: Callable[[str], None]) -> "Contained":
        """Return the context of one call."""


type_name: Callable[[type], str] = vars(type)["__name__"].__get__
"""The name of a type, whatever its own type would say of it: that is a user's code, too."""


class Contained:
    """A context that nothing comes out of, not even SystemExit. `tell` gets its type's name, never a message.

    The message, and the traceback with its variables, may hold a record.
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
