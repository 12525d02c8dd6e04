"""Settings of the graph and its schedule."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from streams.mesh.settings.base import Choice, Count, Matrix, Name, Positive, Settings, refusal

Edge = Annotated[tuple[Name, Name], Field(strict=False)]
Edges = Annotated[tuple[Edge, ...], Field(strict=False, min_length=1)]


class RandomGraphSettings(Settings):
    """A random graph, made connected: each pair is an edge with probability `p`, or that of `mean_degree`."""

    mean_degree: Positive | None = None
    p: float | None = Field(None, gt=0, le=1)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.mean_degree is None) == (self.p is None):
            raise refusal("must have either mean_degree or p")
        return self


class GraphSettings(Choice):
    """Edges between nodes, or a matrix of weights. Shapes follow the order of `mesh.nodes`.

    `directed-edges` are pairs [from, to]. Row i of `matrix` holds the weights of all nodes in node i's mix.
    """

    words: ClassVar[tuple[str, ...]] = ("ring", "complete", "star")

    ring: bool = False
    complete: bool = False
    star: bool = False
    grid: Annotated[tuple[Count, Count], Field(strict=False)] | None = None
    erdos_renyi: RandomGraphSettings | None = Field(None, alias="erdos-renyi")
    edges: Edges | None = None
    directed_edges: Edges | None = Field(None, alias="directed-edges")
    matrix: Matrix | None = None


class TopologySettings(Settings):
    """One `graph` for every round, or a `cycle` of graphs in turn.

    With `switching` each pair of the graph is on with that probability in each round.
    """

    graph: GraphSettings | None = None
    cycle: Annotated[tuple[GraphSettings, ...], Field(strict=False, min_length=1)] | None = None
    switching: float | None = Field(None, gt=0, le=1)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.graph is None) == (self.cycle is None):
            raise refusal("must have either graph or cycle")
        if self.switching is not None and self.graph is None:
            raise refusal("goes with graph, not with cycle", "switching")
        directed = self.graph is not None and self.graph.name in {"directed-edges", "matrix"}
        if self.switching is not None and directed:
            raise refusal("needs an undirected graph, not directed-edges or a matrix", "switching")
        return self
