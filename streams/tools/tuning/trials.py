"""Tries a setting on a pilot: the mean online loss of every node's decisions on all nodes' records."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
import yaml

from nodes.learner import Engine
from nodes.losses.losses import Loss, scores
from nodes.privacy.exact import SimulatedSampler
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.local.scoring import ranking
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.plugins import NO_CODE, Code
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import MechanismName, NodeOverrides
from streams.tools.tuning.pilot import Pilot
from topology.schedules import Copies

LOOKED_AT = 16
"""About how many records score the decisions of a run's round: some of each node."""


@dataclass(frozen=True, order=True)
class Setting:
    """A proposal: theta, the step size's a, and h; `tilt` multiplies k2/k1 of gains, and k3/k2 too."""

    gradient_bound: float
    step: float
    size: int
    tilt: float = 1.0

    @classmethod
    def of(cls, mesh: MeshSettings) -> "Setting":
        """Return the mesh file's own setting."""
        return cls(mesh.privacy.gradient_bound, mesh.algorithm.step_size.a, mesh.slots.size)

    def applied(self, mesh: MeshSettings) -> MeshSettings:
        """Return the mesh with this setting, for nodes without overrides and with simulated noise.

        Raises ValueError if no mesh file may have it: noise on parameters needs one record a slot.
        """
        privacy: dict[str, object] = {"noise": "simulated"}
        algorithm = mesh.algorithm
        if not algorithm.alone:  # class sums and moments have neither clip nor step
            privacy["gradient_bound"] = self.gradient_bound
            step_size = algorithm.step_size.model_copy(update={"a": self.step})
            gains = tilted(algorithm.gains, self.tilt)
            algorithm = algorithm.model_copy(update={"step_size": step_size, "gains": gains})
        return MeshSettings.model_validate(
            dict(mesh)
            | {
                "nodes": {
                    name: NodeOverrides(loss=node.loss, key=node.key) for name, node in mesh.nodes.items()
                },
                "privacy": mesh.privacy.model_copy(update=privacy),
                "algorithm": algorithm,
                "slots": mesh.slots.model_copy(update={"size": self.size}),
            }
        )


def tilted(gains: tuple[float, ...] | None, tilt: float) -> tuple[float, ...] | None:
    """Return gains with each over the one before it multiplied by `tilt`: more of the velocity, or less."""
    return None if gains is None else tuple(gain * tilt**k for k, gain in enumerate(gains))


class Measured(NamedTuple):
    """A trial's result: the value to minimise, and the ranking's AUPRC if records are ranked."""

    loss: float
    auprc: float | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """The trial of a setting: `runs` runs, in each of which a node learns from the given number of records.

    `labelled`: records (n, p) with labels (n,) of both signs, to score by ranking them instead.
    `code`: what of the user's code may run.
    """

    mesh: MeshSettings
    pilot: Pilot
    records: int
    runs: int
    seed: int
    labelled: tuple[FloatArray, FloatArray] | None = None
    code: Code = NO_CODE

    def loss(self, setting: Setting) -> float:
        """Return the value to minimise, as `measure` does."""
        return self.measure(setting).loss

    def measure(self, setting: Setting) -> Measured:
        """Return the mean loss over runs, rounds and nodes; infinite if the records fill no slot.

        It is also infinite if no mesh file may have the setting, such as a round above the budget. Each round
        scores decisions before they learn from its records, as on a live mesh. With `labelled` it is 1 - AUC
        of the nodes' mean last decision, averaged over runs. All settings use the same seeds.
        """
        rounds, nodes = self.records // setting.size, len(self.mesh.nodes)
        if not rounds:
            return Measured(math.inf)
        try:
            engine = self._engine(setting)
        except ValueError:
            if setting == Setting.of(self.mesh):
                raise
            return Measured(math.inf)
        slots = self.pilot.slots(rounds, nodes, setting.size, self.runs, self.seed)
        if self.labelled is not None:
            (last,) = deque(engine.steps(slots), maxlen=1)
            decisions = engine.learner.algorithm.observed(last.decision)
            return _ranked(decisions.reshape(self.runs, nodes, -1).mean(1), *self.labelled)
        learnt, scored = tee(slots)
        loss, observed = engine.learner.loss, engine.learner.algorithm.observed
        total = sum(
            _mean_loss(loss, observed(step.decision), slot, self.runs)
            for step, slot in zip(engine.steps(learnt), scored, strict=True)
        )
        return Measured(total / rounds if math.isfinite(total) else math.inf)

    def _engine(self, setting: Setting) -> Engine:
        mesh = Mesh(setting.applied(self.mesh).model_copy(update={"seed": self.seed}), code=self.code)
        schedule = Copies(mesh.schedule, self.runs)
        sampler = SimulatedSampler(self.seed, schedule.graph.nodes)
        return Engine(mesh.node(min(self.mesh.nodes)).learner_with(sampler), schedule)


@np.errstate(all="ignore")  # for steps that are far too large
def _mean_loss(loss: Loss, decisions: FloatArray, slot: Observations, runs: int) -> float:
    """Return the mean loss of decisions (R N, d) at records of all nodes of their run."""
    nodes = len(decisions) // runs
    first = slice(max(1, LOOKED_AT // nodes))
    features, labels, present = dense(slot.features)[:, first], slot.labels[:, first], slot.present[:, first]
    pooled = Observations(
        features.reshape(runs, 1, -1, features.shape[-1]),
        labels.reshape(runs, 1, -1),
        present.reshape(runs, 1, -1),
    )
    return float(loss.value(decisions.reshape(runs, nodes, -1), pooled).mean())


def _ranked(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> Measured:
    """Return the means over decisions (R, d) of 1 - AUC and AUPRC; infinite if all labels have one sign."""
    rankings = [
        ranked for ranked in (ranking(scores(decision, features), labels) for decision in decisions) if ranked
    ]
    if not rankings:
        return Measured(math.inf)
    return Measured(
        1.0 - fmean(ranked.auc for ranked in rankings), fmean(ranked.auprc for ranked in rankings)
    )


# The search of `tune`: walks to better settings by factors of four and two until no neighbour is better.

STRIDES = (4, 2)
"""The factors, in order."""
BETTER = 0.98
"""A loss counts as less below this share: it is flat in the clip while nearly all gradients are clipped."""
MOST = 80
"""The largest number of trials."""


def walk(
    start: Setting,
    loss: Callable[[Setting], float],
    *,
    sizes: bool,
    report: Callable[[int], None],
    tilts: bool = False,
) -> dict[Setting, float]:
    """Return the losses of all settings tried, the best among them.

    Tries the neighbours of the best so far: clip, step, (with `tilts`) the gains' tilt and (with `sizes`)
    slot size, each multiplied or divided by the stride; the two that keep clip times step; and the two that
    keep step over size, as larger slots are fewer. `report` takes the number of trials done.
    """
    tried: dict[Setting, float] = {}

    def attempt(setting: Setting) -> None:
        if setting not in tried and len(tried) < MOST:
            tried[setting] = loss(setting)
            report(len(tried))

    attempt(start)
    for stride in STRIDES:
        while True:
            middle = _least(tried)
            for setting in _neighbours(middle, stride, sizes=sizes, tilts=tilts):
                attempt(setting)
            if not tried[_least(tried)] < BETTER * tried[middle]:
                break
    return tried


def best(tried: dict[Setting, float]) -> Setting:
    """Return the setting to propose: the one with the largest clip within 2 % of the least loss."""
    near = [setting for setting, loss in tried.items() if BETTER * loss <= tried[_least(tried)]]
    return max(near, key=lambda setting: (setting.gradient_bound, -tried[setting]))


def _least(tried: dict[Setting, float]) -> Setting:
    return min(tried, key=tried.__getitem__)


def _neighbours(middle: Setting, stride: int, *, sizes: bool, tilts: bool) -> Iterator[Setting]:
    bound, step, size, tilt = middle.gradient_bound, middle.step, middle.size, middle.tilt
    yield Setting(bound, step * stride, size, tilt)
    yield Setting(bound, step / stride, size, tilt)
    yield Setting(bound / stride, step * stride, size, tilt)
    yield Setting(bound * stride, step / stride, size, tilt)
    yield Setting(bound / stride, step, size, tilt)
    yield Setting(bound * stride, step, size, tilt)
    if tilts:
        yield Setting(bound, step, size, tilt * stride)
        yield Setting(bound, step, size, tilt / stride)
    if sizes:
        yield Setting(bound, step, size * stride, tilt)
        yield Setting(bound, step * stride, size * stride, tilt)
        if size >= stride:
            yield Setting(bound, step, size // stride, tilt)
            yield Setting(bound, step / stride, size // stride, tilt)


# Tries settings under one mechanism or several, and writes what to put into the mesh file.

PURE: Final[tuple[MechanismName, ...]] = ("laplace", "l2-sphere")
WITH_DELTA: Final[tuple[MechanismName, ...]] = ("gaussian", "gaussian-bisr")


class Candidate(NamedTuple):
    """A mechanism with a setting."""

    mechanism: MechanismName
    setting: Setting


@dataclass(frozen=True, slots=True)
class Search:
    """Everything tried, the best of each mechanism, and which of these is proposed.

    `left_out`: mechanisms that do not go with the mesh's epsilon or budget.
    """

    tried: dict[Candidate, Measured]
    best: tuple[Candidate, ...]
    proposed: Candidate
    left_out: tuple[MechanismName, ...]


def with_mechanism(mesh: MeshSettings, name: MechanismName, delta: float | None) -> MeshSettings:
    """Return the mesh with another mechanism of the same epsilon, on the gradient.

    `delta`: for a mechanism that needs one where the mesh gives none. Raises ValueError if the mesh's epsilon
    or budget does not go with it.
    """
    if name == mesh.privacy.mechanism:
        return mesh
    overrides = NodeOverrides(
        mechanism=name, delta=(mesh.privacy.delta or delta) if name in WITH_DELTA else None
    )
    privacy = mesh.privacy.model_copy(update={"on": "gradient"}).overridden(overrides)
    return MeshSettings.model_validate(dict(mesh) | {"privacy": privacy})


def search(
    mesh: MeshSettings,
    names: Sequence[MechanismName],
    delta: float | None,
    trials_of: Callable[[MeshSettings], Trials],
    *,
    sizes: bool,
    report: Callable[[int], None],
) -> Search:
    """Walk under the mesh's own mechanism, the first of `names`; then from the best there under each other.

    Proposes the first mechanism whose best is within 2 % of the least loss. `report` takes the number of
    trials done.
    """
    tried: dict[Candidate, Measured] = {}
    candidates: list[Candidate] = []
    left_out: list[MechanismName] = []
    for name in names:
        start = candidates[0].setting if candidates else Setting.of(mesh)
        after = _after(len(tried), report)
        try:
            trials = trials_of(with_mechanism(mesh, name, delta))
            measured, chosen = _walked(trials, start, after, sizes=sizes)
        except ValueError:
            if not candidates:  # the mesh's own
                raise
            left_out.append(name)
            continue
        tried |= {Candidate(name, setting): candidate for setting, candidate in measured.items()}
        candidates.append(Candidate(name, chosen))
    least = min(candidate.loss for candidate in tried.values())
    proposed = next(candidate for candidate in candidates if BETTER * tried[candidate].loss <= least)
    return Search(tried, tuple(candidates), proposed, tuple(left_out))


def _after(done: int, report: Callable[[int], None]) -> Callable[[int], None]:
    return lambda more: report(done + more)


def _walked(
    trials: Trials, start: Setting, report: Callable[[int], None], *, sizes: bool
) -> tuple[dict[Setting, Measured], Setting]:
    measured: dict[Setting, Measured] = {}

    def loss(setting: Setting) -> float:
        measured[setting] = trials.measure(setting)
        return measured[setting].loss

    tilts = trials.mesh.algorithm.gains is not None
    return measured, best(walk(start, loss, sizes=sizes, report=report, tilts=tilts))


def block(file: MeshFile, chosen: Candidate, delta: float | None, records: int) -> str:
    """Return the keys of `mesh` to replace, whole, as YAML: everything else in them is as in the file.

    With another size of slots by count `rounds` is what the records suffice for, if the file limits it.
    """
    mesh_tree, setting = read_yaml(file.path)["mesh"], chosen.setting
    step_size = mesh_tree["algorithm"]["step_size"] | {"a": _short(setting.step)}
    slots = mesh_tree["slots"] | {"size": setting.size}
    algorithm = mesh_tree["algorithm"] | {"step_size": step_size}
    gains = tilted(file.mesh.algorithm.gains, setting.tilt)
    if gains is not None:
        algorithm["gains"] = [_short(gain) for gain in gains]
    tree = {"algorithm": algorithm, "slots": slots}
    resized = setting.size != file.mesh.slots.size
    if resized and slots["by"] == "count" and file.mesh.rounds is not None:
        tree["rounds"] = records // setting.size
    tree["privacy"] = _privacy(file, mesh_tree["privacy"], chosen, delta)
    return yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=100)


def _privacy(
    file: MeshFile, written: dict[str, Any], chosen: Candidate, delta: float | None
) -> dict[str, Any]:
    """Return the privacy settings as written, without the keys that another mechanism does not have."""
    changes: dict[str, Any] = {"gradient_bound": _short(chosen.setting.gradient_bound)}
    if chosen.mechanism == file.mesh.privacy.mechanism:
        return written | changes
    privacy = with_mechanism(file.mesh, chosen.mechanism, delta).privacy
    inherited = {
        key: value
        for key, value in written.items()
        if key not in {"on", "norm"} and getattr(privacy, key, None) is not None
    }
    delta_keys = {} if privacy.delta is None else {"delta": privacy.delta}
    return inherited | {"mechanism": chosen.mechanism} | delta_keys | changes


def _short(number: float) -> float:
    return float(f"{number:.6g}")
