"""A node's mechanism, its account, and what it promises."""

from nodes.ledger import Ledger
from nodes.privacy.exact import ExactSampler
from nodes.privacy.guarantee import Guarantee
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.mechanism import Mechanism, Sampler
from nodes.privacy.simulated import SimulatedSampler
from nodes.privacy.unprotected import Unprotected
from streams.mesh_file.build.algorithm import constraint, mirror_map, step_size
from streams.mesh_file.settings.mesh import MeshSettings


def sampler(mesh: MeshSettings, node: str, seed: int) -> Sampler:
    """Return where a node's noise comes from; `seed` counts for simulated noise alone."""
    return ExactSampler() if mesh.privacy.noise == "exact" else SimulatedSampler(seed, node)


def mechanism(mesh: MeshSettings, node: str, sampler: Sampler) -> Mechanism:
    """Return a node's mechanism, its overrides applied."""
    privacy = mesh.privacy_of(node)
    theta = privacy.gradient_bound
    if privacy.epsilon is None or privacy.mechanism == "none":
        return Unprotected(theta, privacy.norm, mesh.slots.size, mesh.dimension)
    if privacy.on == "gradient":
        return LaplaceGradient(theta, privacy.epsilon, mesh.slots.size, mesh.dimension, sampler)
    phi, omega, alpha = mirror_map(mesh), constraint(mesh), step_size(mesh)
    return LaplaceParameters(theta, privacy.norm, privacy.epsilon, phi, omega, alpha, sampler)


def ledger(mesh: MeshSettings, node: str) -> Ledger:
    """Return a node's account."""
    privacy = mesh.privacy_of(node)
    epsilon = None if privacy.mechanism == "none" else privacy.epsilon
    return Ledger(epsilon, mesh.slots.size, privacy.budget)


def guarantee(mesh: MeshSettings, node: str, *, trusted_broker: bool = False) -> Guarantee:
    """Return what is promised to the owner of a record of that node."""
    made = mechanism(mesh, node, sampler(mesh, node, mesh.seed))
    return Guarantee(
        made.name, made.epsilon, made.delta, mesh.slots.by, mesh.slots.size, made.simulated, trusted_broker
    )
