"""A node's account: what a release costs at stream level, how releases add up, and what may be spent."""

from nodes.ledger import Ledger
from nodes.privacy.accounting import Composition, GaussianComposition, GrowingSum, Sum
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.bisr_composition import BandComposition
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace_schedule import LaplaceSchedule
from nodes.privacy.simulated import SimulatedSampler
from nodes.privacy.tight import Tight, TightKind
from streams.mesh_file.build.privacy import mechanism
from streams.mesh_file.settings.budget import (
    BudgetSettings,
    EpsilonSettings,
    budget_epsilon,
    release_epsilon,
)
from streams.mesh_file.settings.mesh import MeshSettings


def ledger(mesh: MeshSettings, node: str) -> Ledger:
    """Return a node's account. A tight composition takes about a second to begin with."""
    privacy, size = mesh.privacy_of(node), mesh.slots.size
    if privacy.mechanism == "none" or privacy.epsilon is None:
        return Ledger(None, size, budget_epsilon(privacy.budget))
    epsilon = release_epsilon(privacy.epsilon, size)
    rounds = privacy.epsilon.rounds if isinstance(privacy.epsilon, EpsilonSettings) else None
    return Ledger(epsilon, size, budget_epsilon(privacy.budget), composition(mesh, node), rounds)


def composition(mesh: MeshSettings, node: str) -> Composition:
    """Return how the releases of a node with a mechanism add up at stream level: h * epsilon each."""
    privacy, size = mesh.privacy_of(node), mesh.slots.size
    if privacy.epsilon is None:
        raise ValueError("epsilon is missing: what is spent cannot be known")
    budget, epsilon = privacy.budget, release_epsilon(privacy.epsilon, size)
    made = mechanism(mesh, node, SimulatedSampler(mesh.seed, node))
    delta = budget.delta if isinstance(budget, BudgetSettings) else made.delta
    if isinstance(made, GaussianBisr):
        moved = 2 * made.grid.radius * size << FINER
        return BandComposition(made.matrix, moved, made.scale, made.dimension, delta)
    if isinstance(made, GaussianGradient):
        return GaussianComposition(2 * made.grid.radius * size, made.scale, made.dimension, delta)
    if isinstance(made, LaplaceSchedule):
        return GrowingSum(made.schedule)
    if not isinstance(budget, BudgetSettings):
        return Sum(size * epsilon)
    kind: TightKind = "pure" if privacy.mechanism == "l2-sphere" else "laplace"
    return Tight(kind, size * epsilon, budget.delta, budget.epsilon)
