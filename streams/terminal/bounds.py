"""Says what theorems promise of a mesh's regret, and which of their assumptions it does not meet."""

import math
from collections.abc import Iterator

from streams.mesh.file import MeshFile
from streams.mesh.mixing import Windows, least
from streams.mesh.settings.base import Settings
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.mesh.theory import Mixes, NoBound, Theory
from streams.terminal.motion import NO_BOUND
from streams.terminal.unmet import unmet
from streams.terminal.wording import counted

ROUNDS = 1_000
"""The rounds of a mesh without an end, for which bounds are given."""

_PRINTED = {
    "dpdo-nc": "Zhou, Li 2025, Theorem 2",
    "dola": "Li et al. 2018, Theorem 5",
    "gaussian": "Li et al. 2018, Theorem 7: no value: it gives its noise up to a constant alone",
    "sparse-dola": "Li et al. 2018, Theorem 8: no value: its noise term is not legible beyond doubt",
}


def bounds(file: MeshFile, seen: Windows, rounds: int | None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the regret after the rounds in which the mesh learns."""
    if file.mesh.algorithm.dynamics is not None:
        yield "bound", NO_BOUND
        return
    if seen.width is None:
        yield "bound", "none: nodes that are not connected never agree"
        return
    if seen.rate is None:
        yield "bound", f"none: the mixing of {counted(len(file.mesh.nodes), 'node')} is not measured"
        return
    theory = theory_of(file, seen, rounds)
    try:
        yield from _bound(theory, whole=seen.whole)
    except NoBound as reason:
        yield "bound", f"none: {reason}"
    yield "printed", _printed(theory)
    yield "not met", "; ".join(unmet(theory)) or "nothing: the mesh is the theorem's"


def theory_of(file: MeshFile, seen: Windows, rounds: int | None) -> Theory:
    """Return what is known of a mesh whose nodes are connected, after the rounds in which all learn."""
    mesh = file.resolved
    ends = {mesh.node(name).ledger.last_learning_round for name in file.mesh.nodes}
    last = min(rounds or ROUNDS, *(end for end in ends if end is not None), math.inf)
    mixes = Mixes(seen.width or 1, 1.0 if seen.rate is None else seen.rate, *least(mesh.schedule, seen))
    return Theory(mesh, int(last), mixes, _longest(file))


def _bound(theory: Theory, *, whole: bool) -> Iterator[tuple[str, str]]:
    bound, of_any = theory.bound(), theory.of_any()
    share = bound / (theory.rounds * theory.network.nodes)
    size = f"at most {bound:.3g}, {share:.3g} a round and node"
    quantity = "regret" if theory.convex else "first-order regret"
    value = f"{quantity} of the network after {counted(theory.rounds, 'round')} {size}"
    if bound >= of_any:
        yield "bound", f"{value}; that says nothing, as no decisions have more than {of_any:.3g}"
    else:
        yield "bound", f"{value} (no decisions have more than {of_any:.3g})"
    yield "", "an expectation over noise; if no gradient is longer than the clip, and no node late or away"
    if not theory.convex:
        close = "nearer to a sensor than half of the distance measured"
        yield "", f"no promise: the range loss has no beta {close}, and this takes the 1 of elsewhere"
    else:
        draws = "if records are independent draws (Li et al. 2018, Theorem 10)"
        yield "", f"a node's average decision: expected loss at most {share:.3g} above the least, {draws}"
    if not whole:
        yield "", "an estimate, as the mixing is one"


def _printed(theory: Theory) -> str:
    algorithm, privacy = theory.mesh.settings.algorithm.name, theory.mesh.settings.privacy
    gaussian = algorithm == "dola" and privacy.mechanism == "gaussian"
    name = _PRINTED["gaussian" if gaussian else algorithm]
    if gaussian or algorithm == "sparse-dola":
        return name
    try:
        value = theory.zhou_li() if algorithm == "dpdo-nc" else theory.li()
    except NoBound as reason:
        return f"{name}: no value: {reason}"
    if algorithm == "dola":
        return f"{name}: {value:.3g}, which is no bound: runs on large constraints exceed it"
    return f"{name}: {value:.3g}"


def _longest(file: MeshFile) -> float | None:
    """Return the largest L2 norm of a record's features by the sources' settings; None: unknown."""
    longest = [_of_source(node.source) for node in file.nodes.values()]
    if len(longest) < len(file.mesh.nodes) or not longest:
        return None
    return None if None in longest else max(count for count in longest if count is not None)


def _of_source(source: Settings | None) -> float | None:
    if isinstance(source, LibsvmSettings | CsrSettings):
        return source.norm
    if not isinstance(source, FileSettings):
        return None
    schema = source.record
    if schema.norm is not None:
        return schema.norm
    if any(column.number for column in schema.features.values()):
        return None
    # a column is in [0, 1], or one of its features is 1
    return math.sqrt(len(schema.features) + schema.intercept)
