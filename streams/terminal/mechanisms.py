"""What a node's mechanism does, in words: its clip, its noise, and where another would have less."""

from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.mechanism import Mechanism
from streams.mesh_file import build
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.privacy import PrivacySettings
from streams.terminal.wording import counted

_SCALES = {
    "laplace": "noise of scale",
    "gaussian": "noise of standard deviation",
    "gaussian-bisr": "noise of standard deviation",
    "l2-sphere": "randomness of root mean square",
}


def described(mesh: MeshSettings, name: str, rounds: int | None) -> str:
    """Return the mechanism of node `name` in a sentence; `rounds`: how many there are to be."""
    privacy = mesh.privacy_of(name)
    made = build.mechanism(mesh, name, build.sampler(mesh, name, mesh.seed))
    clip = f"each record's gradient is clipped to {privacy.gradient_bound:g} in {privacy.norm}"
    if made.epsilon is None:
        return f"{made.name}; {clip}; no noise"
    how = f", {privacy.calibration} calibration" if privacy.calibration is not None else ""
    more = _less_noise(made) if isinstance(made, L2Sphere) else ""
    more = _correlated(made) if isinstance(made, GaussianBisr) else more
    return f"{privacy.mechanism} on the {privacy.on}{how}; {clip}; {_noise(privacy, made, rounds)}{more}"


def _noise(privacy: PrivacySettings, made: Mechanism, rounds: int | None) -> str:
    first, last = made.noise_scale(1), made.noise_scale(rounds or 1)
    scale = f"{first:.4g}" if first == last else f"{first:.4g} in round 1, {last:.4g} in round {rounds:,}"
    what = "the round's mean gradient" if privacy.on == "gradient" else "the parameters"
    kind = "simulated" if made.simulated else "exact"
    return f"{kind} {_SCALES[privacy.mechanism]} {scale} on each coordinate of {what}"


def _less_noise(made: L2Sphere) -> str:
    """Say where `laplace` does better: an L1 bound of sqrt(d) theta clips nothing that theta in L2 keeps."""
    if made.batch_size <= made.laplace_is_better_above:
        return ""
    bound = made.theta * made.dimension**0.5
    return (
        f"; laplace with the same L2 bound would have less noise (slots of more than "
        f"{made.laplace_is_better_above:,.0f} records): mechanism laplace, gradient_bound {bound:.6g} in l1"
    )


def _correlated(made: GaussianBisr) -> str:
    """Say what correlation is for: what is left of the noise when many rounds' gradients are summed up."""
    if made.bands == 1:
        return ""
    matrix = made.matrix
    return (
        f", correlated over {counted(made.bands, 'round')}: over many rounds it adds up to "
        f"{matrix.norm / matrix.gain:.2g} times what gaussian's would; the node's journal holds the last "
        f"{counted(made.bands - 1, 'draw')}, which are secret"
    )
