"""The price of a node's releases by the current mesh file. Its journal keeps it and refuses another."""

import json
from fractions import Fraction

from nodes.accounting.guarantee import Guarantee
from nodes.accounting.price import Price
from nodes.decimals import as_text
from streams.mesh.settings.budget import BudgetSettings, EpsilonSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import PrivacySettings


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
