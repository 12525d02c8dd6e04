"""Describes who hears whom, how soon all have heard of all, and how fast they agree."""

from collections.abc import Iterator

from streams.bus.topic_specs import mesh_specs, release_topics
from streams.mesh.mesh import Mesh
from streams.mesh.mixing import Windows
from streams.mesh.settings.topology import TopologySettings
from streams.terminal.wording import counted

REPLICAS = 3
"""Copies of a topic in the usual cluster."""
_NOTHING = 1e-12  # what rounding leaves of a rate of 0


def edges(mesh: Mesh, seen: Windows) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the edges and their schedule."""
    pairs = mesh.graph.sources.size // 2
    yield (
        "edges",
        f"{_shape(mesh.settings.topology)}; {counted(pairs, 'pair')} of nodes, provisioned both ways",
    )
    yield from _layout(mesh)
    looked_at = f" (looked at: rounds 1 to {seen.starts:,})" if seen.drawn else ""
    if seen.width is None:
        never = f"NOT IN {seen.limit:,} ROUNDS" if seen.drawn else "NEVER"
        yield "connected", f"{never}{looked_at.upper()}"
        yield "", "nodes that are not connected never learn from each other"
        return
    window = f"any {counted(seen.width, 'round')} in a row"
    yield "connected", f"{'in every round' if seen.width == 1 else f'over {window}'}{looked_at}"
    if seen.rate is not None:
        left = f"at most {seen.rate:.3g}" if seen.rate > _NOTHING else "nothing"
        after = window if seen.starts > 1 else counted(seen.width, "round")
        fact = f"after {after} {left} of the disagreement between nodes is left"
        guess = f": an estimate, from those that begin in rounds 1 to {seen.measured:,}"
        yield "mixing", fact if seen.whole else fact + guess


def _layout(mesh: Mesh) -> Iterator[tuple[str, str]]:
    """Yield what outboxes change; nothing where each edge has a topic."""
    if mesh.settings.layout == "edges":
        return
    boxes, edges = len(release_topics(mesh)), mesh.graph.sources.size
    topics = len(mesh_specs(mesh))
    by_edge = topics - boxes + edges
    topics_text = f"outbox: {counted(topics, 'topic')} on the mesh broker"
    yield "layout", f"{topics_text}, {topics * REPLICAS:,} replicas at {REPLICAS} each"
    yield "", f"with a topic an edge it would be {by_edge:,} topics, {by_edge * REPLICAS:,} replicas"
    yield (
        "",
        "rights are by node, not by edge: a neighbour reads all releases of a node, whichever edges are on",
    )
    yield "", "the guarantee is the same: it holds against everyone who reads the mesh broker"


def _shape(topology: TopologySettings) -> str:
    if topology.cycle is not None:
        return f"{len(topology.cycle)} graphs in turn ({', '.join(graph.name for graph in topology.cycle)})"
    name = "" if topology.graph is None else topology.graph.name
    if topology.switching is not None:
        return f"{name}, each pair on with probability {topology.switching:g}, round by round"
    return f"{name}, the same every round"
