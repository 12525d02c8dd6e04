"""Tries a setting on a pilot: the mean online loss of every node's decisions on all nodes' records."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from statistics import fmean, stdev
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
from topology.schedules import Copies, closing_rounds

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
                "nodes": {name: _loss_and_key(node) for name, node in mesh.nodes.items()},
                "privacy": mesh.privacy.model_copy(update=privacy),
                "algorithm": algorithm,
                "slots": mesh.slots.model_copy(update={"size": self.size}),
            }
        )


def _loss_and_key(node: NodeOverrides) -> NodeOverrides:
    """Return a node's loss and key, set only where they are given, as sums take no other nodes."""
    settings = {"loss": node.loss, "key": node.key}
    return NodeOverrides.model_validate(
        {name: value for name, value in settings.items() if value is not None}
    )


def tilted(gains: tuple[float, ...] | None, tilt: float) -> tuple[float, ...] | None:
    """Return gains with each over the one before it multiplied by `tilt`: more of the velocity, or less."""
    return None if gains is None else tuple(gain * tilt**k for k, gain in enumerate(gains))


CONFIRMED, OTHER_SEED = 16, 1_000_000
"""The runs, at least, that confirm a proposal, and how far their seeds are from those of the search."""
BEYOND = 2.0
"""A difference counts from so many standard errors on."""


class Measured(NamedTuple):
    """A trial's result: the mean of `runs`, the values to minimise, and, of a ranking, the mean AUPRC.

    All trials of a search have the same seeds, so that their runs are compared pair by pair. `guess`: the
    values of the same runs for decisions that have learnt nothing.
    """

    loss: float
    auprc: float | None = None
    runs: tuple[float, ...] = ()
    guess: tuple[float, ...] = ()

    @property
    def spread(self) -> float:
        """The standard error of the mean; 0 of fewer than two runs."""
        return _standard_error(self.runs)

    @property
    def better_than_guessing(self) -> bool:
        """Whether the runs are below those of a guess, by more than `BEYOND` standard errors."""
        return _clearly(self.runs, self.guess)

    def clearly_below(self, other: "Measured") -> bool:
        """Whether this is less, by more than `BEYOND` standard errors of the runs' differences."""
        if not math.isfinite(other.loss) or len(self.runs) != len(other.runs) or not self.runs:
            return self.loss < other.loss
        return _clearly(self.runs, other.runs)


def _clearly(less: Sequence[float], more: Sequence[float]) -> bool:
    """Return whether values are less than those of the same runs; not so of a trial that was impossible."""
    if not less:
        return False
    differences = [high - low for low, high in zip(less, more, strict=True)]
    return fmean(differences) > BEYOND * _standard_error(differences)


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Trials:
    """The trial of a setting: `runs` runs, in each of which a node learns from the given number of records.

    The last slot has the records that are left, as in `run`.
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

    @np.errstate(all="ignore")  # for steps that are far too large
    def measure(self, setting: Setting) -> Measured:
        """Return the mean loss over runs, rounds and nodes.

        It is infinite if no mesh file may have the setting, such as a round above the budget. Each round
        scores decisions before they learn from its records, as on a live mesh. With `labelled` it is 1 - AUC
        of the nodes' mean decision in the last closing round, averaged over runs. All settings use the same
        seeds.
        """
        rounds, nodes = -(-self.records // setting.size), len(self.mesh.nodes)
        try:
            engine = self._engine(setting)
        except ValueError:
            if setting == Setting.of(self.mesh):
                raise
            return Measured(math.inf)
        full_slots = self.pilot.slots(rounds, nodes, setting.size, self.runs, self.seed)
        slots = self._cut(full_slots, rounds, setting.size)
        if self.labelled is not None:
            (last,) = deque(engine.steps(slots), maxlen=1)
            decisions = engine.learner.algorithm.observed(engine.closed(last, self._closing(rounds)))
            return _ranked(decisions.reshape(self.runs, nodes, -1).mean(1), *self.labelled)
        learnt, scored = tee(slots)
        loss, observed = engine.learner.loss, engine.learner.algorithm.observed
        total, guess, first = np.zeros(self.runs), np.zeros(self.runs), None
        for step, slot in zip(engine.steps(learnt), scored, strict=True):
            first = observed(step.decision) if first is None else first
            total += _mean_losses(loss, observed(step.decision), slot, self.runs)
            guess += _mean_losses(loss, first, slot, self.runs)
        if not np.isfinite(total).all():
            return Measured(math.inf)
        return _measured(total / rounds, guess / rounds)

    def confirm(self, setting: Setting) -> Measured:
        """Return the setting's result in other runs: in those it was chosen by it is good by luck too."""
        return replace(self, seed=self.seed + OTHER_SEED, runs=max(self.runs, CONFIRMED)).measure(setting)

    def _cut(self, slots: Iterator[Observations], rounds: int, size: int) -> Iterator[Observations]:
        """Yield the slots, the last one with the records that are left."""
        last = slice(self.records - (rounds - 1) * size)
        for round, slot in enumerate(slots, 1):
            features, labels, present = slot
            yield (
                slot
                if round < rounds
                else Observations(dense(features)[:, last], labels[:, last], present[:, last])
            )

    def _closing(self, rounds: int) -> int:
        """Return the closing rounds of a run; all runs have the graph of one."""
        return closing_rounds(Mesh(self.mesh, code=self.code).schedule, rounds)

    def _engine(self, setting: Setting) -> Engine:
        mesh = Mesh(setting.applied(self.mesh).model_copy(update={"seed": self.seed}), code=self.code)
        schedule = Copies(mesh.schedule, self.runs)
        sampler = SimulatedSampler(self.seed, schedule.graph.nodes)
        return Engine(mesh.node(min(self.mesh.nodes)).learner_with(sampler), schedule)


def _mean_losses(loss: Loss, decisions: FloatArray, slot: Observations, runs: int) -> FloatArray:
    """Return the mean loss (R,) of decisions (R N, d) at records of all nodes of their run."""
    nodes = len(decisions) // runs
    first = slice(max(1, LOOKED_AT // nodes))
    features, labels, present = dense(slot.features)[:, first], slot.labels[:, first], slot.present[:, first]
    pooled = Observations(
        features.reshape(runs, 1, -1, features.shape[-1]),
        labels.reshape(runs, 1, -1),
        present.reshape(runs, 1, -1),
    )
    losses: FloatArray = loss.value(decisions.reshape(runs, nodes, -1), pooled).reshape(runs, -1).mean(-1)
    return losses


def _measured(losses: FloatArray, guess: FloatArray, auprc: float | None = None) -> Measured:
    """Return the result of runs (R,)."""
    return Measured(float(losses.mean()), auprc, tuple(losses.tolist()), tuple(guess.tolist()))


def _ranked(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> Measured:
    """Return the means over decisions (R, d) of 1 - AUC and AUPRC; infinite if all labels have one sign."""
    rankings = [
        ranked for ranked in (ranking(scores(decision, features), labels) for decision in decisions) if ranked
    ]
    if not rankings:
        return Measured(math.inf)
    losses = np.array([1.0 - ranked.auc for ranked in rankings])
    return _measured(losses, np.full(len(losses), 0.5), fmean(ranked.auprc for ranked in rankings))


# The search of `tune`: walks to better settings by factors of four and two until no neighbour is better.

STRIDES = (4, 2)
"""The factors, in order."""
BETTER = 0.98
"""A loss counts as less below this share: it is flat in the clip while nearly all gradients are clipped."""
MOST = 80
"""The largest number of trials."""


def walk(
    start: Setting,
    measure: Callable[[Setting], Measured],
    *,
    sizes: Callable[[int], int] | None,
    report: Callable[[int], None],
    tilts: bool = False,
) -> dict[Setting, Measured]:
    """Return the results of all settings tried, the start first.

    Tries the neighbours of the best so far: clip, step, (with `tilts`) the gains' tilt and (with `sizes`)
    slot size, each multiplied or divided by the stride; the two that keep clip times step; and the two that
    keep step over size, as larger slots are fewer. It goes on while a neighbour is better by 2 % and by more
    than the runs spread. `sizes` returns the size to try next to one that is asked for. `report` takes the
    number of trials done.
    """
    tried: dict[Setting, Measured] = {}

    def attempt(setting: Setting) -> None:
        if setting not in tried and len(tried) < MOST:
            tried[setting] = measure(setting)
            report(len(tried))

    attempt(start)
    for stride in STRIDES:
        while True:
            middle = _least(tried)
            for setting in _neighbours(middle, stride, sizes=sizes, tilts=tilts):
                attempt(setting)
            least = tried[_least(tried)]
            if not (least.loss < BETTER * tried[middle].loss and least.clearly_below(tried[middle])):
                break
    return tried


def best(tried: dict[Setting, Measured]) -> Setting:
    """Return the setting to propose: the one with the largest clip within 2 % of the least loss.

    It is the start, the first of `tried`, if no setting is better than it by more than the runs spread: the
    least of many noisy results is less than it by luck.
    """
    least, start = tried[_least(tried)], next(iter(tried))
    if not least.clearly_below(tried[start]):
        return start
    near = [setting for setting, result in tried.items() if BETTER * result.loss <= least.loss]
    return max(near, key=lambda setting: (setting.gradient_bound, -tried[setting].loss))


def _least(tried: dict[Setting, Measured]) -> Setting:
    return min(tried, key=lambda setting: tried[setting].loss)


def even_sizes(records: int) -> Callable[[int], int]:
    """Return a function that adjusts a slot size, so that `records` records fill their slots evenly.

    It takes a size, and returns ceil(records/T) for T = round(records/size) rounds, at least 1. Then all
    slots are full, or the last one lacks fewer than T records.
    """

    def even(size: int) -> int:
        return -(-records // max(1, round(records / size)))

    return even


def _neighbours(
    middle: Setting, stride: int, *, sizes: Callable[[int], int] | None, tilts: bool
) -> Iterator[Setting]:
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
    if sizes is not None:
        larger = sizes(size * stride)
        yield Setting(bound, step, larger, tilt)
        yield Setting(bound, step * stride, larger, tilt)
        if size >= stride:
            smaller = sizes(size // stride)
            yield Setting(bound, step, smaller, tilt)
            yield Setting(bound, step / stride, smaller, tilt)


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
    sizes: Callable[[int], int] | None,
    report: Callable[[int], None],
) -> Search:
    """Search for the best settings under each mechanism of `names`, and propose one mechanism.

    `names` begins with the mesh's own mechanism. The search under each other one starts at the best settings
    of the first. The first mechanism is proposed whose best loss is within 2 % of the least loss, or not
    clearly above it, given the runs' spread. `report` takes the number of trials done.
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
    least = min(tried.values(), key=lambda result: result.loss)
    proposed = next(
        candidate
        for candidate in candidates
        if BETTER * tried[candidate].loss <= least.loss or not least.clearly_below(tried[candidate])
    )
    return Search(tried, tuple(candidates), proposed, tuple(left_out))


def settled(
    found: Search, start: Candidate, trials_of: Callable[[MechanismName], Trials]
) -> tuple[Search, Measured]:
    """Confirm a search's proposal in new runs; return the search with the final proposal, and its result.

    The mesh file's own settings, `start`, become the proposal unless the search's are clearly better in the
    new runs too.
    """
    result = trials_of(found.proposed.mechanism).confirm(found.proposed.setting)
    if found.proposed == start:
        return found, result
    of_the_file = trials_of(start.mechanism).confirm(start.setting)
    if result.clearly_below(of_the_file):
        return found, result
    return replace(found, proposed=start), of_the_file


def _after(done: int, report: Callable[[int], None]) -> Callable[[int], None]:
    return lambda more: report(done + more)


def _walked(
    trials: Trials, start: Setting, report: Callable[[int], None], *, sizes: Callable[[int], int] | None
) -> tuple[dict[Setting, Measured], Setting]:
    tilts = trials.mesh.algorithm.gains is not None
    tried = walk(start, trials.measure, sizes=sizes, report=report, tilts=tilts)
    return tried, best(tried)


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
        tree["rounds"] = -(-records // setting.size)
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
