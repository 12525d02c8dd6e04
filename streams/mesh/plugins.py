"""Makes a user's own loss or source, by the name of an entry point or an allowed `package.module:attribute`.

Making it runs the user's code with the rights of this process. The code must be installed or on PYTHONPATH.
"""

import importlib
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar, get_args

from nodes.contained import type_name
from nodes.losses.check_loss import check_loss as look_at_loss
from nodes.losses.own_loss import OwnLoss
from nodes.privacy.clipping import Norm
from nodes.values import FloatArray
from streams.mesh.errors import (
    MeshFileError,
    Problem,
    UsageError,
    as_count,
    as_count_or_none,
    check_type,
    check_word,
    one_of,
    refused,
)
from streams.mesh.settings.base import CODE
from streams.mesh.user_code import UserCode

T = TypeVar("T")
LOSSES, SOURCES = "mirrormesh.losses", "mirrormesh.sources"
"""The groups of entry points for losses and for sources."""


@wraps(look_at_loss)
def check_loss(loss: Any, dimension: Any, width: Any = None, **options: Any) -> list[str]:
    """Check a user's loss.

    This is `nodes.losses.check_loss` with UsageErrors for a program's wrong arguments.
    """
    for method in ("value", "gradients"):
        if not callable(getattr(loss, method, None)):
            raise refused("loss", loss, "must be a loss: an object with the methods value and gradients")
    dimension, width = as_count("dimension", dimension, 1), as_count_or_none("width", width, 1)
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise UsageError(f"{unknown}: {one_of(_OPTIONS, unknown)}")
    if "seed" in options:
        options["seed"] = as_count("seed", options["seed"], 0)
    if "gradient_bound" in options:
        bound = options["gradient_bound"]
        check_type("gradient_bound", bound, (int, float), "must be a number above 0")
        if not 0 < bound < math.inf:
            raise refused("gradient_bound", bound, "must be a number above 0")
    if "norm" in options:
        check_word("norm", options["norm"], get_args(Norm))
    labels = options.get("labels")
    if labels is not None and not (isinstance(labels, Collection) and _are_numbers(labels)):
        raise refused("labels", labels, "must be a list of numbers, or None")
    return look_at_loss(loss, dimension, width, **options)


_OPTIONS = ("labels", "gradient_bound", "norm", "seed")


def _are_numbers(values: Collection[Any]) -> bool:
    return bool(values) and all(isinstance(value, int | float) for value in values)


def found(group: str, name: str) -> Any:
    """Return the object that the name denotes. Raises ValueError with the reason if there is none."""
    if ":" not in name:
        matching = list(entry_points(group=group, name=name))
        if len(matching) != 1:
            count = f"{len(matching)} entry points" if matching else "no entry point"
            raise ValueError(f"{count} of that name in {group}: must be one, or package.module:attribute")
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
    """Return the object that the name denotes, or the result of calling it with `arguments`.

    Raises ValueError unless the object has the `needed` methods.
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


class OwnSource(Protocol):
    """The interface of a user's own source. The named object is one, or is called with the node's name."""

    @property
    def dimension(self) -> int:
        """The number of features."""

    def records(self) -> Iterable[bytes]:
        """Return the records, always in the same order."""

    def decode(self, value: bytes) -> tuple[FloatArray, float] | None:
        """Return (features (dimension,), label) of this record, whatever other records are; None if it is no
        record.
        """


@dataclass(frozen=True, slots=True)
class Code:
    """The user's code that may run here: installed entry points, and the names in `allowed`.

    A mesh file cannot allow a name, because another party may have written the file. Only the command line
    (`--code`) or a program (`code=[...]`) can. `file` is the mesh file that names the code; errors name it.
    """

    file: str = ""
    allowed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, file: str, names: Iterable[str]) -> "Code":
        """Return the code with these names allowed.

        Raises UsageError for a name that is not module:attribute.
        """
        allowed = frozenset(names)
        for name in sorted(allowed):
            if ":" not in name or not CODE.fullmatch(name):
                text = "must be module:attribute, as the mesh file has it; entry points need no --code"
                raise UsageError(f"--code {name!r}: {text}")
        return cls(file, allowed)

    def allows(self, name: str) -> bool:
        """Return whether the code may run. An operator allows entry points by installing them."""
        return ":" not in name or name in self.allowed

    def loss(self, name: str, node: str | None = None) -> OwnLoss:
        """Return the own loss of a node, or of the mesh for None. Its exceptions are contained.

        Raises MeshFileError.
        """
        return OwnLoss(self.raw_loss(name, node), UserCode)

    def raw_loss(self, name: str, node: str | None = None) -> Any:
        """Return an own loss as `loss` does, but without containing its exceptions."""
        path = self.check_loss(name, node)
        return self._made(path, name, partial(made, LOSSES, name, ("value", "gradients")))

    def source(self, name: str, node: str) -> tuple[OwnSource, int]:
        """Return the own source of a node, and its dimension. Raises MeshFileError."""
        path = self.check_source(name, node)
        return self._made(path, name, partial(_own_source, name, node))

    def check_loss(self, name: str, node: str | None = None) -> tuple[str, ...]:
        """Return the key path of the loss in the file. Raises MeshFileError unless it may run.

        It runs no code.
        """
        path = ("mesh", "loss", "own") if node is None else ("mesh", "nodes", node, "loss", "own")
        return self._checked(path, LOSSES, name)

    def check_source(self, name: str, node: str) -> tuple[str, ...]:
        """Return the key path of the source in the file, as `check_loss` does for a loss."""
        return self._checked(("nodes", node, "source", "name"), SOURCES, name)

    def _checked(self, path: tuple[str, ...], group: str, name: str) -> tuple[str, ...]:
        if self.allows(name):
            return path
        allowed = f"code that no file may allow: give --code {name}, or name an entry point of {group}"
        raise MeshFileError([Problem(self.file, path, allowed, name).line])

    def _made(self, path: tuple[str, ...], name: str, make: Callable[[], T]) -> T:
        try:
            return make()
        except ValueError as error:
            raise MeshFileError([Problem(self.file, path, str(error), name).line]) from None


NO_CODE = Code()
"""Allows only entry points."""


def _own_source(name: str, node: str) -> tuple[OwnSource, int]:
    source: OwnSource = made(SOURCES, name, ("records", "decode"), (node,))
    raised: list[str] = []
    dimension: Any = None
    with UserCode(raised.append):
        dimension = getattr(source, "dimension", None)
    if raised:
        raise ValueError(f"asking for its dimension raised {raised[0]}")
    if type(dimension) is not int or dimension < 1:
        text = dimension if dimension is None or type(dimension) is int else f"a {type_name(type(dimension))}"
        raise ValueError(f"its dimension is {text}: must be the number of features")
    return source, dimension
