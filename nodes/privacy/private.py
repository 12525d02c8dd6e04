"""`Private[T]`: a value that depends on data. Code can compute with it and cannot look at it."""

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
V = TypeVar("V")


class Private(Generic[T_co]):
    """A value that depends on a node's own records.

    `map` computes with it, and the result is private too. Only `nodes.privacy.reveal`, which the mechanisms
    import, and `nodes.privacy.owner`, for the data's owner, open it. It has no equality, no truth, no text
    and no pickle, so it cannot slip into a comparison, a branch, a log line or a file.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def map(self, function: Callable[[T_co], U]) -> "Private[U]":
        """Return function(value), still private. `function` must be pure."""
        return Private(function(self._value))

    def with_(self, other: "Private[U]", function: Callable[[T_co, U], V]) -> "Private[V]":
        """Return function(value, other value), still private. `function` must be pure."""
        return Private(function(self._value, other._value))  # noqa: SLF001 # the same class

    def __repr__(self) -> str:
        return "Private(...)"

    def __bool__(self) -> NoReturn:
        raise TypeError("a private value has no truth: nothing public may branch on it")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a private value cannot be compared: nothing public may branch on it")

    __hash__ = None  # type: ignore[assignment] # as equality

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private value cannot be pickled or copied")
