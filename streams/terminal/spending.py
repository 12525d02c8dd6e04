"""What a mesh would spend, in words: the facts of `plan` about epsilon and the last learning round."""

import math
from collections.abc import Iterator

from nodes.decimals import as_text, up_to_digits
from nodes.ledger import Ledger
from streams.mesh_file import build
from streams.mesh_file.settings.budget import BudgetSettings, EpsilonSettings
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.privacy import PrivacySettings
from streams.terminal.wording import counted

_THEN = {
    "relay": "it relays: it averages and passes on, and learns from no record any more",
    "leave": "it leaves the mesh",
}


def spending(mesh: MeshSettings, name: str, rounds: int | None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of what a node would spend in `rounds` rounds; nothing where none is protected."""
    privacy, ledger = mesh.privacy_of(name), build.ledger(mesh, name)
    if ledger.epsilon is not None:
        yield "epsilon", _epsilon(ledger, as_text(ledger.epsilon), rounds)
        yield "learning", _learning(ledger, privacy, rounds)


def spent(epsilon: float) -> str:
    """Return a stream-level epsilon in words."""
    return "none" if math.isinf(epsilon) else f"{up_to_digits(epsilon):,.6g}"


def at_delta(delta: float) -> str:
    """Return ` at delta = 1e-06`; nothing for a pure guarantee."""
    return f" at delta = {delta!r}" if delta else ""


def _epsilon(ledger: Ledger, epsilon: str, rounds: int | None) -> str:
    one = f"{epsilon} of one record, however long the run (event level)"
    if ledger.composition is None:
        return one
    how = f"(stream level, {ledger.composition.words}{at_delta(ledger.delta)})"
    if rounds is None:
        spent = f"{up_to_digits(ledger.spent(1, 1)):,.6g}"
        return f"{one}; the whole stream of a node costs {spent} in one round {how}"
    charged = min(rounds, ledger.last_learning_round or rounds)
    spent = f"{up_to_digits(ledger.spent(charged, rounds)):,.6g}"
    return f"{one}; {spent} of a node's whole stream after {counted(rounds, 'round')} {how}"


def _learning(ledger: Ledger, privacy: PrivacySettings, rounds: int | None) -> str:
    last = ledger.last_learning_round
    if last is None:
        return "in every round: there is no budget"
    limit = _limit(ledger, privacy, last)
    if rounds is not None and rounds <= last:
        return f"in every round: {limit} pays for {counted(last, 'round')}"
    return f"up to round {last:,}, when {limit} is spent; then {_THEN[privacy.after_budget]}"


def _limit(ledger: Ledger, privacy: PrivacySettings, last: int) -> str:
    """Return what ends the learning: the total of a schedule, or the budget."""
    if isinstance(privacy.epsilon, EpsilonSettings) and last == ledger.rounds:
        return f"the total of {float(privacy.epsilon.total):g}"
    if isinstance(privacy.budget, BudgetSettings):
        return f"the budget of {float(privacy.budget.epsilon):g} at delta {privacy.budget.delta:g}"
    return f"the budget of {float(privacy.budget or 0):g}"
