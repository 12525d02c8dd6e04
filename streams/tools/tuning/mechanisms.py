"""Tries settings under one mechanism or several, and writes what to put into the mesh file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from streams.mesh.file import MeshFile
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import MechanismName, NodeOverrides
from streams.tools.tuning.trials import BETTER, Measured, Setting, Trials, best, tilted, walk

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
    written, setting = read_yaml(file.path)["mesh"], chosen.setting
    step_size = written["algorithm"]["step_size"] | {"a": _short(setting.step)}
    slots = written["slots"] | {"size": setting.size}
    algorithm = written["algorithm"] | {"step_size": step_size}
    gains = tilted(file.mesh.algorithm.gains, setting.tilt)
    if gains is not None:
        algorithm["gains"] = [_short(gain) for gain in gains]
    tree = {"algorithm": algorithm, "slots": slots}
    resized = setting.size != file.mesh.slots.size
    if resized and slots["by"] == "count" and file.mesh.rounds is not None:
        tree["rounds"] = records // setting.size
    tree["privacy"] = _privacy(file, written["privacy"], chosen, delta)
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
    more = {} if privacy.delta is None else {"delta": privacy.delta}
    return inherited | {"mechanism": chosen.mechanism} | more | changes


def _short(number: float) -> float:
    return float(f"{number:.6g}")
