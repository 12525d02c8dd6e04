"""Settings that are valid but probably unintended. They are judged without records.

So every command may report them, also a command whose output must not depend on a record.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodes.algorithms import MirrorDescent
from nodes.dynamics import LARGEST_RADIUS
from streams.mesh.algorithm import dynamics
from streams.mesh.settings.mesh import MeshSettings
from topology.schedules import CycleSchedule, FixedSchedule, window

if TYPE_CHECKING:
    from streams.mesh.mesh import Mesh  # which has these cautions

_ENDLESS = 1_000
"""The round at which the noise of a run without an end is judged."""


def cautions(whole: "Mesh") -> Iterator[str]:
    """Yield a line for each setting that is probably unintended."""
    yield from _unconnected(whole)
    yield from _growing(whole)
    yield from _few_records(whole.settings)
    yield from _units_as_features(whole.settings)
    yield from _dominated(whole)
    yield from _cut_weights(whole.settings)
    yield from _never_reached(whole.settings)
    yield from _scaled_intercept(whole.settings)
    yield from _beyond_the_set(whole)


def _unconnected(whole: "Mesh") -> Iterator[str]:
    """Yield a line if the graph is not connected over the horizon.

    Of switched edges it checks those of the first rounds.
    """
    schedule, horizon = whole.schedule, whole.settings.horizon
    turns = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    repeats = isinstance(schedule, CycleSchedule | FixedSchedule)
    if window(schedule, min(turns, horizon) if repeats else horizon, turns) is None:
        over = f"{horizon} rounds, the horizon"
        yield f"mesh.topology: not connected over {over}: what some nodes learn does not reach all others"


def _growing(whole: "Mesh") -> Iterator[str]:
    """Yield a line if the motion model makes states grow geometrically."""
    model = dynamics(whole.settings)
    radius = 0.0 if model is None else model.spectral_radius()
    if radius > LARGEST_RADIUS:
        allowed = "above 1, so states grow until the set holds them: hardly a model of anything that moves"
        yield f"mesh.algorithm.dynamics.matrix: spectral radius {radius:.6g}: {allowed}"


def _few_records(mesh: MeshSettings) -> Iterator[str]:
    """Yield a line if a rule has fewer records than members: its records are those of one node."""
    rule = mesh.rule
    if rule is not None and rule.records is not None and rule.records < rule.members:
        fewer = f"fewer than the {rule.members:,} members: it is the number of each node's records"
        yield f"mesh.rule.records: {rule.records:,}: {fewer}"


def _units_as_features(mesh: MeshSettings) -> Iterator[str]:
    """Yield a line if the column that names the units is a feature, so that decisions are about units."""
    unit, schema = mesh.privacy.unit, mesh.features
    if unit is not None and schema is not None and unit.column in schema.features:
        text = "names the units (mesh.privacy.unit), and which records are of one unit is not protected"
        yield f"mesh.features.features.{unit.column}: {text}"


def _cut_weights(mesh: MeshSettings) -> Iterator[str]:
    """Yield a line if the clip cuts the heaviest weight to less than a tenth, for rows of length 1."""
    heaviest, bound = max(mesh.label_weights, default=0.0), mesh.privacy.gradient_bound
    if not mesh.weighs_within_clip and heaviest > 10 * bound and mesh.privacy.mechanism != "none":
        yield (
            f"mesh.class_weights: gradient_bound {bound:g} cuts a record's gradient, weight included, so "
            f"{heaviest:g} counts hardly more than {bound:g}: {{within: clip, weights: ...}} keeps the ratio"
        )


def _never_reached(mesh: MeshSettings) -> Iterator[str]:
    """Yield a line if no record's gradient can be half as long as the clip, by which noise is measured."""
    features, privacy = mesh.features, mesh.privacy
    length = None if features is None else features.longest
    if features is None or length is None or mesh.loss.labels is None or privacy.mechanism == "none":
        return
    entries = math.sqrt(features.width) if privacy.norm == "l1" else 1.0
    heaviest = 1.0 if mesh.weighs_within_clip else max(mesh.label_weights, default=1.0)
    longest = length * entries * heaviest * (math.sqrt(2) if mesh.loss.softmax else 1.0)
    if privacy.gradient_bound > 2 * longest and not mesh.algorithm.alone:
        yield (
            f"mesh.privacy.gradient_bound: {privacy.gradient_bound:g}: no record's gradient is longer than "
            f"{longest:.3g}, and the noise is as long as the bound: choose at most that"
        )


def _scaled_intercept(mesh: MeshSettings) -> Iterator[str]:
    """Yield a line if the intercept shrinks where a row has many features."""
    features = mesh.features
    if features is not None and features.intercept is True and features.norm is not None:
        yield (
            "mesh.features.intercept: true: norm scales it with its row, so its weight ranks rows by how "
            "many features they have: outside keeps it apart"
        )


def _beyond_the_set(whole: "Mesh") -> Iterator[str]:
    """Yield a line if noise moves decisions through the whole set to the end."""
    mesh, algorithm = whole.settings, whole.algorithm
    if not isinstance(algorithm, MirrorDescent) or mesh.privacy.on != "gradient":
        return
    reach, last = algorithm.step.constraint.reach, mesh.rounds or _ENDLESS
    noise = whole.lasting_length(mesh.privacy) * algorithm.step_size(last) / math.sqrt(len(mesh.nodes))
    if reach < noise < math.inf:
        yield (
            f"mesh.privacy: even in round {last:,} the noise of all nodes' mean moves decisions by "
            f"{noise:.3g}, more than the set's radius, {reach:.3g}: nothing is learnt; take larger slots, "
            "smaller steps or a larger epsilon"
        )


def _dominated(whole: "Mesh") -> Iterator[str]:
    """Yield a line if most of all noise is that of a few nodes, at least twice as long as the others'."""
    nodes = whole.settings.nodes
    if not any(node.overrides for node in nodes.values()) or whole.settings.public_places:
        return  # with public places a node's noise decides what its sign counts
    lengths = {name: whole.lasting_length(whole.node(name).privacy) for name in nodes}
    by_length = sorted(nodes, key=lambda name: -lengths[name])
    squares = [lengths[name] ** 2 for name in by_length]
    few = next((k for k in range(1, len(squares)) if 2 * sum(squares[:k]) > sum(squares)), 0)
    loud, rest = by_length[:few], (sum(squares[few:]) / max(1, len(squares) - few)) ** 0.5
    if not few or lengths[loud[-1]] < 2 * rest or not all(nodes[name].overrides for name in loud):
        return
    clips = [whole.node(name).privacy.gradient_bound * rest / lengths[name] for name in loud]
    ratio = f"at least {lengths[loud[-1]] / rest:.3g} times as long as that of the others" if rest else "all"
    name, clip = loud[0], f"{clips[0]:.3g}" if rest else "a short one"
    also = f" (likewise {', '.join(loud[1:3])})" if few > 1 else ""
    yield (
        f"mesh.nodes.{name}: the noise here is {ratio}, and reaches every node{also}: gradient_bound {clip} "
        f"makes it as long as theirs; the records here then count less"
    )
