"""The loss of one record: a word, or a word with its setting."""

from typing import Any, ClassVar

from pydantic import Field, model_serializer

from streams.mesh_file.settings.base import Choice, Positive


class LossSettings(Choice):
    """`huber` has the distance from which on a residual counts linearly."""

    words: ClassVar[tuple[str, ...]] = ("range", "hinge", "logistic", "squared", "absolute", "linear")

    range_: bool = Field(default=False, alias="range")
    hinge: bool = False
    logistic: bool = False
    squared: bool = False
    absolute: bool = False
    linear: bool = False
    huber: Positive | None = None

    @property
    def signed(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.hinge or self.logistic

    def __str__(self) -> str:
        return self.name if self.huber is None else f"huber ({self.huber:g})"

    @model_serializer
    def _as_written(self) -> Any:
        """Return what stands in the mesh file: the word alone where it needs no setting."""
        return self.name if self.huber is None else {"huber": self.huber}
