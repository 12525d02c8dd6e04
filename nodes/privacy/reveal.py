"""Opens a private value. A linter contract lets only `nodes.privacy`, the folder to audit, import it."""

from typing import TypeVar

from nodes.privacy.private import Private

T = TypeVar("T")


def opened(private: Private[T]) -> T:
    """Return the private value itself."""
    return private._value  # noqa: SLF001 # the one place that looks inside
