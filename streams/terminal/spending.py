"""Puts spending into words: epsilon, budgets and the last learning round."""

import math
from collections.abc import Iterator

from nodes.accounting.guarantee import Ledger
from nodes.accounting.spends import Spend
from nodes.checks import as_text, down_to_digits, rounded_up, up_to_digits
from streams.ledger import Reuse
from streams.mesh.mesh import MeshNode
from streams.mesh.settings.privacy import BudgetSettings, EpsilonSettings, PrivacySettings
from streams.status.account import PrivacyAccount
from streams.terminal.text import counted, verb

_THEN = {
    "relay": "it relays: it averages and passes on, and learns from no record any more",
    "leave": "it leaves the mesh",
}


def spending(node: MeshNode, rounds: int | None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about a node's spending in `rounds` rounds; nothing if nothing is protected."""
    privacy, ledger = node.privacy, node.ledger
    if ledger.epsilon is not None:
        yield "epsilon", _epsilon(ledger, as_text(ledger.epsilon), rounds)
        yield "learning", _learning(ledger, privacy, rounds)


def spent(epsilon: float) -> str:
    """Return a stream-level epsilon in words."""
    return "none" if math.isinf(epsilon) else f"{up_to_digits(epsilon):,.6g}"


def learns_no_more(last: int, unused: int, *, exactly: bool) -> str:
    """Return since when a node learns no more, and how much of its budget it has not used."""
    if not unused:
        return f"learns no more since round {last:,}"
    rounds = f"{'' if exactly else 'at least '}{counted(unused, 'round')}"
    return f"learns no more since round {last:,}; {rounds} of its budget {verb(unused)} not used"


def at_delta(delta: float) -> str:
    """Return ` at delta = 1e-06`; nothing for a pure guarantee."""
    return f" at delta = {delta!r}" if delta else ""


def _epsilon(ledger: Ledger, epsilon: str, rounds: int | None) -> str:
    per_record = f"{epsilon} of one record, however long the run (event level)"
    if ledger.composition is None:
        return per_record
    composition = f"(stream level, {ledger.composition.words}{at_delta(ledger.delta)})"
    if rounds is None:
        spent = f"{up_to_digits(ledger.spent(1, 1)):,.6g}"
        return f"{per_record}; the whole stream of a node costs {spent} in one round {composition}"
    charged = min(rounds, ledger.last_learning_round or rounds)
    spent = f"{up_to_digits(ledger.spent(charged, rounds)):,.6g}"
    return f"{per_record}; {spent} of a node's whole stream after {counted(rounds, 'round')} {composition}"


def _learning(ledger: Ledger, privacy: PrivacySettings, rounds: int | None) -> str:
    last = ledger.last_learning_round
    if last is None:
        return "in every round: there is no budget"
    limit = _limit(ledger, privacy, last)
    if rounds is not None and rounds <= last:
        return f"in every round: {limit} pays for {counted(last, 'round')}"
    return f"up to round {last:,}, when {limit} is spent; then {_THEN[privacy.after_budget]}"


def _limit(ledger: Ledger, privacy: PrivacySettings, last: int) -> str:
    """Return the limit that ends the learning: the total of a schedule, or the budget."""
    if isinstance(privacy.epsilon, EpsilonSettings) and last == ledger.rounds:
        return f"the total of {float(privacy.epsilon.total):g}"
    if isinstance(privacy.budget, BudgetSettings):
        return f"the budget of {float(privacy.budget.epsilon):g} at delta {privacy.budget.delta:g}"
    return f"the budget of {float(privacy.budget or 0):g}"


def facts(account: PrivacyAccount, known: Reuse | None = None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of one account, and of the spending of all runs on the same data."""
    source = "" if account.source == "journal" else _BY_PLANS
    yield (
        "node",
        f"{account.node}: {counted(account.charged, 'round')} charged{source}, {account.stepped:,} stepped",
    )
    if not account.protected or account.epsilon is None:
        yield "spent", "everything: nothing is protected"
    else:
        yield "record", f"epsilon {_up(account.epsilon)}{at_delta(account.delta)} of one record (event level)"
        yield "spent", f"{_stream(account.spent, account.stream_delta)} (stream level, {account.composition})"
        yield "left", _left(account)
    if known is not None and known.earlier:
        for spend in known.earlier:
            yield "earlier", _earlier(spend, known.label(spend))
        total = known.total
        stream = None if total.stream_epsilon is None else rounded_up(total.stream_epsilon)
        yield "all runs", f"Together they cost {_stream(stream, total.stream_delta)}."
    yield "guarantee", account.guarantee


_BY_PLANS = (
    " in this run at most (by the plans that name it, also those ahead of it, and by this file's settings; "
    "if it was started with --spent, that many more)"
)


def _up(epsilon: float) -> str:
    return f"{up_to_digits(epsilon):,.6g}"


def _stream(epsilon: float | None, delta: float) -> str:
    if epsilon is None:
        return "more of the whole stream than is known"
    return f"epsilon {_up(epsilon)}{at_delta(delta)} of the whole stream"


def _left(account: PrivacyAccount) -> str:
    if account.last_learning_round is None or account.rounds_left is None:
        return "there is no budget to run out"
    rounds = f"{counted(account.rounds_left, 'round')}, up to round {account.last_learning_round:,}"
    if account.relaying:
        rounds = f"it {_no_more(account, account.last_learning_round)}"
    if account.budget is None or account.left is None:
        return rounds
    most = "at most, as an earlier life of the run may have charged more, " if account.at_most else ""
    return f"{most}{down_to_digits(account.left):,.6g} of the budget of {account.budget:,.6g}: {rounds}"


def _no_more(account: PrivacyAccount, last: int) -> str:
    if account.stepped < last:  # spent before this journal
        return "learns no more"
    return learns_no_more(last, account.rounds_unused or 0, exactly=account.source == "journal")


def _earlier(spend: Spend, label: str) -> str:
    least = "at least " if spend.open else ""
    name = f"run {label}"
    if spend.epsilon is None:
        return f"{name}: nothing is known to have been protected"
    charged = f"{least}{counted(spend.charged, 'round')} charged"
    bounded = math.isfinite(spend.stream_epsilon)
    stream = f"{least}{_up(spend.stream_epsilon)} of the stream" if bounded else "unknown for the stream"
    return f"{name}: {charged}; epsilon {_up(float(spend.epsilon))} of a record, {stream}"
