"""Loads a user's own loss or source, by `package.module:attribute` or the name of an entry point.

Loading runs the user's code, with the rights of this process. It must be installed, or on PYTHONPATH.
"""

import importlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Protocol

from nodes.contained import type_name
from nodes.losses.own_loss import OwnLoss
from nodes.values import FloatArray
from streams.mesh.user_code import UserCode

LOSSES, SOURCES = "mirrormesh.losses", "mirrormesh.sources"
"""The groups of entry points."""
_LOG = logging.getLogger("mirrormesh")


def found(group: str, name: str) -> Any:
    """Return the object that the name stands for. Raises ValueError with the reason."""
    if ":" not in name:
        matching = list(entry_points(group=group, name=name))
        if len(matching) != 1:
            several = f"{len(matching)} entry points" if matching else "no entry point"
            raise ValueError(f"{several} of that name in {group}: must be one, or package.module:attribute")
        name = matching[0].value
    module, _, path = name.partition(":")
    try:
        at = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = f"no module {error.name}"
        raise ValueError(f"{missing}: must be installed, or in a folder of PYTHONPATH") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 # a module may raise anything
        raise ValueError(f"importing {module} raised {type(error).__name__}: {error}") from None
    for part in path.split("."):
        if not hasattr(at, part):
            raise ValueError(f"{module} has no attribute {path}: must be package.module:attribute")
        at = getattr(at, part)
    return at


def made(group: str, name: str, needed: tuple[str, ...], arguments: tuple[Any, ...] = ()) -> Any:
    """Return the object that the name stands for, or its result when called with `arguments`.

    Raises ValueError unless it has the `needed` methods.
    """
    thing = found(group, name)
    if isinstance(thing, type) or not all(callable(getattr(thing, part, None)) for part in needed):
        if not callable(thing):
            raise ValueError(f"is of type {type(thing).__name__}: must be a class, or be called to make one")
        raised: list[str] = []
        with UserCode(raised.append):  # a constructor may raise anything
            try:
                thing = thing(*arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 # as above
                raised.append(f"{type_name(type(error))}: {error}")
        if raised:
            raise ValueError(f"making it raised {raised[0]}")
    missing = [part for part in needed if not callable(getattr(thing, part, None))]
    if missing:
        raise ValueError(f"makes a {type(thing).__name__} without the method {' and '.join(missing)}")
    return thing


def raw_loss(name: str) -> Any:
    """Return the user's own loss, unguarded. Raises ValueError."""
    return made(LOSSES, name, ("value", "gradients"))


def own_loss(name: str, node: str | None = None) -> OwnLoss:
    """Return the user's own loss, isolated; each kind of failure is logged once. Raises ValueError."""
    return OwnLoss(raw_loss(name), say_once(f"own loss {name}", node, "has a zero gradient"), UserCode)


def say_once(what: str, node: str | None, then: str) -> Callable[[str], None]:
    """Return a function that logs each kind of failure once, by the exception's type, never its text."""
    said: set[str] = set()
    where = "" if node is None else f"node {node}: "
    return partial(_say, said, f"{where}{what}", then)


def _say(warned: set[str], who: str, then: str, kind: str) -> None:
    if kind not in warned:
        warned.add(kind)
        _LOG.warning("%s: %s; such a record %s (said once)", who, kind, then)


class OwnSource(Protocol):
    """A user's own source, or what its factory returns for the node's name."""

    @property
    def dimension(self) -> int:
        """The number of features."""

    def records(self) -> Iterable[bytes]:
        """Return the records, always in the same order."""

    def decode(self, value: bytes) -> tuple[FloatArray, float] | None:
        """Return (features (dimension,), label) of this record alone; None if it is not a record."""


def own_source(name: str, node: str) -> tuple[OwnSource, int]:
    """Return the user's own source of a node, and its dimension. Raises ValueError with the reason."""
    source: OwnSource = made(SOURCES, name, ("records", "decode"), (node,))
    raised: list[str] = []
    dimension: Any = None
    with UserCode(raised.append):
        dimension = getattr(source, "dimension", None)
    if raised:
        raise ValueError(f"asking for its dimension raised {raised[0]}")
    if type(dimension) is not int or dimension < 1:
        said = dimension if dimension is None or type(dimension) is int else f"a {type_name(type(dimension))}"
        raise ValueError(f"its dimension is {said}: must be the number of features")
    return source, dimension
