"""Opens a private value. Importable from `nodes.privacy` alone (a linter contract): the folder to audit."""

from typing import TypeVar

from nodes.privacy.private import Private

T = TypeVar("T")


def opened(private: Private[T]) -> T:
    """Return the private value itself."""
    return private._value  # noqa: SLF001 # the one place that looks inside
