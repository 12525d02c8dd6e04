"""Settings of the graph and its schedule."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from streams.mesh.settings.base import Choice, Count, Matrix, Name, Positive, Settings, refusal

Edge = Annotated[tuple[Name, Name], Field(strict=False)]
Edges = Annotated[tuple[Edge, ...], Field(strict=False, min_length=1)]


class RandomGraphSettings(Settings):
    """A random graph, from the seed, made connected. It has one of these two."""

    mean_degree: Positive | None = None
    """The mean number of a node's neighbours. Not given beside `p`."""
    p: float | None = Field(None, gt=0, le=1)
    """The probability of each edge. Not given beside `mean_degree`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.mean_degree is None) == (self.p is None):
            raise refusal("must have either mean_degree or p")
        return self


class GraphSettings(Choice):
    """Edges between nodes, or a matrix of weights. Shapes follow the order of `mesh.nodes`."""

    words: ClassVar[tuple[str, ...]] = ("ring", "complete", "star")

    ring: bool = False
    """Each node hears the one before it and the one after it."""
    complete: bool = False
    """Each node hears all."""
    star: bool = False
    """The first node hears all, all others hear the first."""
    grid: Annotated[tuple[Count, Count], Field(strict=False)] | None = None
    """[rows, columns]: each node hears its up to four neighbours."""
    erdos_renyi: RandomGraphSettings | None = Field(None, alias="erdos-renyi")
    """A random graph."""
    edges: Edges | None = None
    """Pairs of nodes that hear each other."""
    directed_edges: Edges | None = Field(None, alias="directed-edges")
    """Pairs [from, to]: the second hears the first."""
    matrix: Matrix | None = None
    """Row i holds the weights of all nodes in node i's mix; it sums to 1."""


class TopologySettings(Settings):
    """Who hears whom: one `graph` for every round, or a `cycle` of graphs in turn."""

    graph: GraphSettings | None = None
    """The graph of every round. Not given beside `cycle`."""
    cycle: Annotated[tuple[GraphSettings, ...], Field(strict=False, min_length=1)] | None = None
    """Graphs in turn, one a round. Not given beside `graph`."""
    switching: float | None = Field(None, gt=0, le=1)
    """The probability that a pair of the graph is on, in each round anew. Not given: all are always on."""

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
