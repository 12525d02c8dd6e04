"""What a node has spent, in words."""

from collections.abc import Iterable, Iterator

from nodes.privacy.spends import Spend
from streams.spending.account import Account
from streams.terminal.spending import at_delta
from streams.terminal.wording import counted


def facts(account: Account, earlier: Iterable[Spend] = ()) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of one account, and of what earlier runs have spent on the same data."""
    how = "" if account.source == "journal" else " at most (by the plans that name it, at its last heartbeat)"
    yield (
        "node",
        f"{account.node}: {counted(account.charged, 'round')} charged{how}, {account.stepped:,} stepped",
    )
    if not account.protected or account.epsilon is None or account.spent is None:
        yield "spent", "everything: nothing is protected"
    else:
        yield "record", f"epsilon {account.epsilon:,.6g}{at_delta(account.delta)} of one record (event level)"
        spent = f"epsilon {account.spent:,.6g}{at_delta(account.stream_delta)} of the whole stream"
        yield "spent", f"{spent} (stream level, {account.composition})"
        yield "left", _left(account)
    for spend in earlier:
        yield "earlier", _earlier(spend)
    yield "guarantee", account.guarantee


def _left(account: Account) -> str:
    if account.last_learning_round is None or account.rounds_left is None:
        return "there is no budget to run out"
    rounds = f"{counted(account.rounds_left, 'round')}, up to round {account.last_learning_round:,}"
    rounds = "it learns from no record any more" if account.relaying else rounds
    if account.budget is None or account.left is None:
        return rounds
    return f"{account.left:,.6g} of the budget of {account.budget:,.6g}: {rounds}"


def _earlier(spend: Spend) -> str:
    least = "at least " if spend.open else ""
    if spend.epsilon is None:
        return f"run {spend.run}: nothing was protected"
    charged = f"{least}{counted(spend.charged, 'round')} charged"
    stream = f"{least}{spend.stream_epsilon:,.6g} of the stream"
    return f"run {spend.run}: {charged}; epsilon {float(spend.epsilon):,.6g} of a record, {stream}"
