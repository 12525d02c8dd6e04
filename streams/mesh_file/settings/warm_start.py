"""`x_1: {model: PATH}`: begin where another run has ended. A model is public, and so is x_1."""

import os.path
from pathlib import Path
from typing import Literal

from pydantic import ValidationInfo

from streams.mesh_file.settings.base import Settings, refusal
from streams.mesh_file.settings.errors import MeshFileError
from streams.model.reading import read_model


class WarmStart(Settings):
    """A model file, its path relative to the file that names it; which of its two vectors."""

    model: str
    vector: Literal["average", "newest"] = "average"


def warm_start(value: object, info: ValidationInfo) -> object:
    """Put a model's numbers in place of its path; anything else is left as it is."""
    if not isinstance(value, dict):
        return value
    settings = WarmStart.model_validate(value)
    folder: Path = info.context["folder"] if info.context else Path()
    try:
        model = read_model(Path(os.path.normpath(folder / settings.model)))
    except MeshFileError as error:
        raise refusal(f"must be a model file: {'; '.join(error.lines)}", "model") from None
    return list(model.average if settings.vector == "average" else model.newest)
