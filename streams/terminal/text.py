"""Puts a mesh into words, the same in every command."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from nodes.checks import as_text
from nodes.privacy.bisr_coefficients import BandMatrix
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.mechanism import Mechanism
from streams.ledger import Promise, promises_of
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.mesh import MeshNode
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import EpsilonSettings, PrivacySettings

_SHOWN = 12


def listed(names: Sequence[str]) -> str:
    """Return the names, only the first few if there are many."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1:,} more"


def counted(number: int, thing: str) -> str:
    """Return 1 node, 2,000 nodes."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def speed(rate: float | None) -> str:
    """Return 12 rounds/s, 0.25 rounds/s; nothing if it is not known."""
    if rate is None:
        return ""
    return f"{rate:,.0f} rounds/s" if rate >= 10 else f"{rate:.2g} rounds/s"


def verb(number: int) -> str:
    """Return was, or were."""
    return "was" if number == 1 else "were"


def headline(mesh: MeshSettings) -> str:
    """Return a description of the mesh in one line."""
    rounds = "no end set" if mesh.rounds is None else counted(mesh.rounds, "round")
    size = counted(mesh.slots.size, "record")
    observed = mesh.loss_dimension
    part = "" if observed == mesh.dimension else f" (the loss sees {observed})"
    return (
        f"{mesh.name}, run {mesh.run}: {counted(len(mesh.nodes), 'node')}, dimension {mesh.dimension}{part}, "
        f"{_losses(mesh)}, {rounds}, {size} a round and node ({mesh.slots.by} slots), {_privacy(mesh)}"
    )


def _losses(mesh: MeshSettings) -> str:
    kinds = list(dict.fromkeys(str(mesh.loss_of(name)) for name in mesh.nodes))
    return f"{kinds[0]} loss" if len(kinds) == 1 else f"losses {' and '.join(kinds)}"


def protection(privacy: PrivacySettings) -> str:
    """Return the mechanism and its epsilon."""
    if privacy.mechanism == "none" or privacy.epsilon is None:
        return "no privacy"
    noise = ", simulated noise" if privacy.noise == "simulated" else ""
    delta = "" if privacy.delta is None else f", delta {privacy.delta!r}"
    return f"{privacy.mechanism} on the {privacy.on}{noise}, {epsilon_words(privacy.epsilon, delta)}"


def epsilon_words(epsilon: Fraction | EpsilonSettings, delta: str = "") -> str:
    """Return `epsilon 1 a record`, or the total of a schedule."""
    if not isinstance(epsilon, EpsilonSettings):
        return f"epsilon {as_text(epsilon)}{delta} a record"
    rounds = counted(epsilon.rounds, "round")
    return f"epsilon {as_text(epsilon.total)}{delta} of a stream of {rounds}, {epsilon.schedule}"


def promises(promised: Mapping[str, Promise]) -> list[str]:
    """Return the guarantees in sentences; nodes with equal guarantees share one."""
    alike: dict[tuple[object, str], list[str]] = {}
    for name, promise in promised.items():
        alike.setdefault((promise.guarantee, promise.added), []).append(name)
    return [
        f"{promised[first].sentence}{f' The same holds for {listed(alike_names)}.' if alike_names else ''}"
        for first, *alike_names in alike.values()
    ]


def left_out(file: MeshFile) -> str:
    """Return a line that names the user's code that was not run, as nobody here has allowed it."""
    names = file.unallowed
    options = " ".join(f"--code {name}" for name in names)
    return f"Left out, as a file may not allow its own code: {listed(names)}. To run it: {options}"


def shared(file: AnyFile) -> list[str]:
    """Return a line on each group that may share records: the epsilon of a record in all of their data."""
    return [
        added for added in dict.fromkeys(promise.added for promise in promises_of(file).values()) if added
    ]


def _privacy(mesh: MeshSettings) -> str:
    kinds = list(dict.fromkeys(protection(mesh.privacy_of(name)) for name in mesh.nodes))
    return kinds[0] if len(kinds) == 1 else f"{len(kinds)} kinds of privacy"


_SCALES = {
    "laplace": "noise of scale",
    "gaussian": "noise of standard deviation",
    "gaussian-bisr": "noise of standard deviation",
    "l2-sphere": "randomness of root mean square",
}


def described(node: MeshNode, rounds: int | None) -> str:
    """Return the node's mechanism in a sentence; `rounds`: the planned number."""
    privacy, mechanism = node.privacy, node.mechanism
    clip = f"each record's gradient is clipped to {privacy.gradient_bound:g} in {privacy.norm}"
    if mechanism.epsilon is None:
        return f"{mechanism.name}; {clip}; no noise"
    calibration = f", {privacy.calibration} calibration" if privacy.calibration is not None else ""
    more = _less_noise(mechanism) if isinstance(mechanism, L2Sphere) else ""
    more = _correlated(mechanism.band.matrix) if mechanism.band is not None else more
    noise = _noise(privacy, mechanism, rounds)
    return f"{privacy.mechanism} on the {privacy.on}{calibration}; {clip}; {noise}{more}"


def _noise(privacy: PrivacySettings, mechanism: Mechanism, rounds: int | None) -> str:
    first, last = mechanism.noise_scale(1), mechanism.noise_scale(rounds or 1)
    scale = f"{first:.4g}" if first == last else f"{first:.4g} in round 1, {last:.4g} in round {rounds:,}"
    quantity = "the round's mean gradient" if privacy.on == "gradient" else "the parameters"
    kind = "simulated" if mechanism.simulated else "exact"
    return f"{kind} {_SCALES[privacy.mechanism]} {scale} on each coordinate of {quantity}"


def _less_noise(mechanism: L2Sphere) -> str:
    """Return when `laplace` is better: its L1 bound sqrt(d) theta clips nothing that theta in L2 keeps."""
    if mechanism.batch_size <= mechanism.laplace_is_better_above:
        return ""
    bound = mechanism.theta * mechanism.dimension**0.5
    above = f"{mechanism.laplace_is_better_above:,.0f} records"
    return (
        f"; laplace with the same L2 bound would have less noise (slots of more than {above}): "
        f"mechanism laplace, gradient_bound {bound:.6g} in l1"
    )


def _correlated(matrix: BandMatrix) -> str:
    """Return the use of correlation: how much noise remains when many rounds' gradients are summed."""
    if matrix.bands == 1:
        return ""
    return (
        f", correlated over {counted(matrix.bands, 'round')}: over many rounds it adds up to "
        f"{matrix.norm / matrix.gain:.2g} times what gaussian's would; the node's journal holds the last "
        f"{counted(matrix.bands - 1, 'draw')}, which are secret"
    )
