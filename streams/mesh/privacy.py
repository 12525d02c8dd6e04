"""Makes a node's mechanism, guarantee, ledger and price from its settings."""

import json
from fractions import Fraction

from nodes.accounting.guarantee import Guarantee
from nodes.accounting.ledger import Ledger
from nodes.accounting.price import Price
from nodes.accounting.releases import Composition, DeltaBudget
from nodes.decimals import as_text
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.exact import ExactSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient, LaplaceSchedule
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.mechanism import Mechanism, Sampler
from nodes.privacy.ranges import in_range
from nodes.privacy.simulated import SimulatedSampler
from nodes.privacy.unprotected import Unprotected
from streams.mesh.algorithm import constraint, mirror_map, step_size
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import (
    BudgetSettings,
    EpsilonSettings,
    PrivacySettings,
    budget_epsilon,
    growing_epsilon,
    release_epsilon,
)


def sampler(mesh: MeshSettings, node: str) -> Sampler:
    """Return the sampler of a node's noise."""
    return ExactSampler() if mesh.privacy.noise == "exact" else SimulatedSampler(mesh.seed, node)


def mechanism(mesh: MeshSettings, node: str, sampler: Sampler) -> Mechanism:
    """Return a node's mechanism, with its overrides."""
    privacy = mesh.privacy_of(node)
    theta, size, dimension = privacy.gradient_bound, mesh.slots.size, mesh.loss_dimension
    if privacy.epsilon is None or privacy.mechanism == "none":
        return Unprotected(theta, privacy.norm, size, dimension)
    growing = growing_epsilon(privacy.epsilon, size)
    if growing is not None:
        return LaplaceSchedule(theta, growing, dimension, sampler)
    epsilon = release_epsilon(privacy.epsilon, size)
    in_range(epsilon)
    if privacy.mechanism == "gaussian":
        delta, calibration = privacy.delta or 0.0, privacy.calibration or "analytic"
        return GaussianGradient(theta, epsilon, delta, size, dimension, sampler, calibration)
    if privacy.mechanism == "gaussian-bisr":
        bands = privacy.bands or 1
        return GaussianBisr(theta, epsilon, privacy.delta or 0.0, size, dimension, sampler, bands)
    if privacy.mechanism == "l2-sphere":
        return L2Sphere(theta, epsilon, size, dimension, sampler)
    if privacy.on == "gradient":
        return LaplaceGradient(theta, epsilon, size, dimension, sampler)
    phi, omega, alpha = mirror_map(mesh), constraint(mesh), step_size(mesh)
    return LaplaceParameters(theta, privacy.norm, epsilon, phi, omega, alpha, sampler)


def guarantee(mesh: MeshSettings, mechanism: Mechanism, *, trusted_broker: bool) -> Guarantee:
    """Return the mechanism's guarantee to the owner of a record."""
    return Guarantee(
        mechanism.name,
        mechanism.epsilon,
        mechanism.delta,
        mesh.slots.by,
        mesh.slots.size,
        mechanism.simulated,
        trusted_broker,
        correlated=mechanism.band is not None,
        shift=mesh.shift,
    )


def ledger(mesh: MeshSettings, node: str, mechanism: Mechanism) -> Ledger:
    """Return a node's ledger for its `mechanism`. Making a tight composition takes about a second."""
    privacy, size = mesh.privacy_of(node), mesh.slots.size
    if privacy.mechanism == "none" or privacy.epsilon is None:
        return Ledger(None, size, budget_epsilon(privacy.budget))
    epsilon = release_epsilon(privacy.epsilon, size)
    rounds = privacy.epsilon.rounds if isinstance(privacy.epsilon, EpsilonSettings) else None
    return Ledger(epsilon, size, budget_epsilon(privacy.budget), composition(mesh, node, mechanism), rounds)


def composition(mesh: MeshSettings, node: str, mechanism: Mechanism) -> Composition:
    """Return how the releases of a node with a mechanism compose at stream level."""
    budget = mesh.privacy_of(node).budget
    account = DeltaBudget(budget.epsilon, budget.delta) if isinstance(budget, BudgetSettings) else None
    composition = mechanism.composition(account)
    if composition is None:
        raise ValueError("epsilon is missing: the spent epsilon is unknown")
    return composition


def price(mesh: MeshSettings, own: PrivacySettings, promised: Guarantee) -> Price:
    """Return the price of one node's releases; `own`: its privacy settings."""
    settings = {
        "mechanism": own.mechanism,
        "epsilon": _epsilon(own.epsilon),
        "delta": own.delta,
        "gradient_bound": own.gradient_bound,
        "norm": own.norm,
        "bands": own.bands,
        "size": mesh.slots.size,
    }
    delta = own.budget.delta if isinstance(own.budget, BudgetSettings) else promised.delta
    return Price(
        promised.epsilon if promised.protects else None,
        promised.delta,
        delta if promised.protects else 0.0,
        tuple((key, str(value)) for key, value in settings.items() if value is not None),
    )


def _epsilon(epsilon: Fraction | EpsilonSettings | None) -> str | None:
    if isinstance(epsilon, EpsilonSettings):
        return json.dumps(epsilon.model_dump(mode="json"), sort_keys=True)
    return None if epsilon is None else as_text(epsilon)
