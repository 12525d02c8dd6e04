"""Makes the schedule from its settings."""

from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.topology import GraphSettings
from topology.graphs import Graph, complete, erdos_renyi, from_edges, grid, ring, star
from topology.schedules import CycleSchedule, FixedSchedule, Schedule, SwitchingSchedule
from topology.weights import Weights, fixed


def schedule(mesh: MeshSettings) -> Schedule:
    """Return the schedule: which edges are on in which round."""
    settings, nodes, seed = mesh.topology, tuple(mesh.nodes), mesh.seed
    if settings.cycle is not None:
        return CycleSchedule([_content(graph, nodes, seed) for graph in settings.cycle])
    if settings.graph is None:
        raise ValueError("must have either graph or cycle")
    content = _content(settings.graph, nodes, seed)
    if settings.switching is not None and isinstance(content, Graph):
        return SwitchingSchedule(content, settings.switching, seed)
    return FixedSchedule(content)


def _content(settings: GraphSettings, nodes: tuple[str, ...], seed: int) -> Graph | Weights:
    if settings.matrix is not None:
        if {len(row) for row in settings.matrix} != {len(nodes)} or len(settings.matrix) != len(nodes):
            raise ValueError(f"the matrix must have {len(nodes)} rows of {len(nodes)} numbers, one a node")
        return fixed(nodes, settings.matrix)
    if settings.grid is not None:
        return grid(nodes, *settings.grid)
    if settings.erdos_renyi is not None:
        drawn = settings.erdos_renyi
        return erdos_renyi(nodes, seed, mean_degree=drawn.mean_degree, p=drawn.p)
    edges = settings.edges or settings.directed_edges
    if edges is not None:
        return from_edges(nodes, edges, directed=settings.directed_edges is not None)
    if settings.star:
        return star(nodes)
    return ring(nodes) if settings.ring else complete(nodes)
