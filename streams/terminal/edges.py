"""Describes who hears whom, how soon all have heard of all, and how fast they agree."""

from collections.abc import Iterator

from streams.mesh.mesh import Mesh
from streams.mesh.mixing import Windows
from streams.mesh.settings.topology import TopologySettings
from streams.terminal.wording import counted

_NOTHING = 1e-12  # what rounding leaves of a rate of 0


def edges(mesh: Mesh, seen: Windows) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the edges and their schedule."""
    pairs = mesh.graph.sources.size // 2
    yield (
        "edges",
        f"{_shape(mesh.settings.topology)}; {counted(pairs, 'pair')} of nodes, provisioned both ways",
    )
    where = f" (looked at: rounds 1 to {seen.starts:,})" if seen.drawn else ""
    if seen.width is None:
        never = f"NOT IN {seen.limit:,} ROUNDS" if seen.drawn else "NEVER"
        yield "connected", f"{never}{where.upper()}"
        yield "", "nodes that are not connected never learn from each other"
        return
    window = f"any {counted(seen.width, 'round')} in a row"
    yield "connected", f"{'in every round' if seen.width == 1 else f'over {window}'}{where}"
    if seen.rate is not None:
        left = f"at most {seen.rate:.3g}" if seen.rate > _NOTHING else "nothing"
        after = window if seen.starts > 1 else counted(seen.width, "round")
        fact = f"after {after} {left} of the disagreement between nodes is left"
        guess = f": an estimate, from those that begin in rounds 1 to {seen.measured:,}"
        yield "mixing", fact if seen.whole else fact + guess


def _shape(topology: TopologySettings) -> str:
    if topology.cycle is not None:
        return f"{len(topology.cycle)} graphs in turn ({', '.join(graph.name for graph in topology.cycle)})"
    name = "" if topology.graph is None else topology.graph.name
    if topology.switching is not None:
        return f"{name}, each pair on with probability {topology.switching:g}, round by round"
    return f"{name}, the same every round"
