"""Audits an owner's answers to a learner's queries: what all T of them spend, by draws of one.

Each answer is drawn anew, so T answers at one theta are T independent draws of one mechanism. Where its
epsilon is pure, theirs is T times as large. For Gaussian noise they are one of sqrt(T) times its mu (Dong,
Roth, Su 2022, corollary 2). So a lower bound for one answer gives one for all.
"""

import math
from collections.abc import Callable

from nodes.accounting.calibration import gaussian_epsilon
from nodes.audit.bounds import epsilon_lower_bound, mu_lower_bound
from nodes.audit.mechanism import Audit, samples
from nodes.privacy.query import QueryMechanism


def audit_answers(
    made: QueryMechanism,
    draws: int = 40_000,
    confidence: float = 0.95,
    drawn: Callable[[int], None] | None = None,
) -> Audit:
    """Return a lower bound on the epsilon of all T answers of an owner, at delta_l/kappa.

    It claims epsilon_l/kappa. Costs 2 `draws` answers about one record; `drawn` gets the number of new ones
    from time to time. Raises ValueError for simulated noise, which protects nothing.
    """
    first, second = samples(made.audited, draws, drawn=drawn)
    if made.name == "laplace":
        bound = made.queries * epsilon_lower_bound(first, second, confidence)
    else:
        mu = math.sqrt(made.queries) * mu_lower_bound(first, second, confidence)
        bound = gaussian_epsilon(mu, made.own_delta) if mu > 0 else 0.0
    return Audit(bound, float(made.own_epsilon), confidence, draws)
