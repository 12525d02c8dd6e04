"""A model: what a mesh has learnt, with all that predictions need, and the guarantee that it carries."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from streams.mesh_file.settings.base import Count, Name, Settings, Vector, refusal
from streams.mesh_file.settings.loss import LossSettings

FORMAT: Final = 1
"""The version of the file's format."""
VectorName = Literal["newest", "average"]


class ModelGuarantee(Settings):
    """What is promised to the owners of the records: this run's event-level guarantee, the weakest of a node.

    `epsilon` null: nothing in some node's stream is protected. `nodes`: the sentence of each.
    """

    adjacency: Literal["event"]
    epsilon: Annotated[float, Field(gt=0)] | None
    delta: Annotated[float, Field(ge=0, lt=1)]
    nodes: dict[str, str]


class Model(Settings):
    """A model, public as the releases are that it is a function of. `newest` and `average` have shape (d,).

    `newest` was made from `nodes` nodes at `round`; `average` over `rounds` rounds, as `averaged` says.
    `loss` and `source` (how records are read: kind, schema, columns) are as in a mesh file: of an own
    loss the name alone.
    """

    format: Literal[1]
    mesh: Name
    run: Name
    round: Count
    nodes: Count
    rounds: Count
    averaged: str
    algorithm: str
    loss: LossSettings
    dimension: Count
    source: dict[str, Any] | None
    guarantee: ModelGuarantee
    newest: Vector
    average: Vector

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for name, vector in (("newest", self.newest), ("average", self.average)):
            if len(vector) != self.dimension:
                raise refusal(f"{name} has {len(vector)} numbers: must be as many as that", "dimension")
        return self
