"""The constants of a forecast: what a pilot said, and how they are kept as JSON."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from nodes.collaboration.forecast import Fit
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.errors import UsageError
from streams.mesh.settings.collaboration import CollaborationSettings
from streams.mesh.settings.files import read_small

_SHAPE = {"dimension", "loss", "regulariser", "constraint", "algorithm", "queries", "gradient_bound"}
"""The settings that constants hold for: all but the owners' terms and `sharing`, which make the noise."""


class Constants(NamedTuple):
    """The better of two fits, and the other; `least` is f*, `convexity` L, of the pilot.

    `noises`: the least and the largest noise tried. `records`, `like`: how many the pilot had, and what they
    were.
    """

    fit: Fit
    other: Fit
    least: float
    convexity: float
    noises: tuple[float, float]
    records: int
    like: str
    shape: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return what `read_constants` reads."""
        return self._asdict() | {"fit": self.fit._asdict(), "other": self.other._asdict()}


def shape_of(mesh: CollaborationSettings) -> dict[str, Any]:
    """Return the settings that constants hold for, as JSON has them."""
    shape: dict[str, Any] = mesh.model_dump(mode="json", include=_SHAPE)
    return shape


def read_constants(path: Path, file: CollaborationFile) -> Constants:
    """Read the constants in what `forecast --output` has written.

    Raises UsageError if there are none, or if they are of other settings than the file's.
    """
    try:
        constants = _parsed(read_small(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(
            f"{path}: holds no constants: must be what `mirrormesh forecast --output` has written"
        ) from None
    shape = shape_of(file.mesh)
    for key in sorted(_SHAPE):
        if constants.shape.get(key) != shape[key]:
            raise UsageError(
                f"{path}: constants for {key} {json.dumps(constants.shape.get(key))}, "
                f"but {file.path} has {json.dumps(shape[key])}: make them anew with --pilot or --synthetic"
            )
    return constants


class _Output(BaseModel):
    """What `forecast --output` has written, as far as it is read here."""

    model_config = ConfigDict(strict=True)

    constants: Constants


def _parsed(text: bytes) -> Constants:
    """Raise ValueError unless the JSON holds all, with finite numbers of at least 0."""
    constants = _Output.model_validate_json(text).constants
    numbers = [*constants.fit, *constants.other, constants.least, constants.convexity, *constants.noises]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("constants must be finite and at least 0")
    if constants.least == 0 or constants.records < 1:
        raise ValueError("a pilot has a record and a cost")
    return constants
