"""What a node has spent, in words."""

import math
from collections.abc import Collection, Iterator

from nodes.decimals import down_to_digits, rounded_up, up_to_digits
from nodes.privacy.reuse import reuse_of
from nodes.privacy.spends import Spend
from streams.spending.account import Account
from streams.terminal.spending import at_delta
from streams.terminal.wording import counted


def facts(
    account: Account, run: str, spends: Collection[Spend] = (), by: str = "this folder"
) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of one account in `run`, and of what all runs have spent on the same data.

    `by`: who knows of those.
    """
    found = reuse_of(spends, run, by)
    own = found and found.own
    how = "" if account.source == "journal" else _BY_PLANS
    yield (
        "node",
        f"{account.node}: {counted(account.charged, 'round')} charged{how}, {account.stepped:,} stepped",
    )
    if not account.protected or account.epsilon is None:
        yield "spent", "everything: nothing is protected"
    else:
        yield "record", f"epsilon {_up(account.epsilon)}{at_delta(account.delta)} of one record (event level)"
        yield "spent", f"{_stream(account.spent, account.stream_delta)} (stream level, {account.composition})"
        yield "left", _left(account)
    for spend in spends:
        if own is None or spend is not own:
            yield "earlier", _earlier(spend, run)
    if found is not None and (found.earlier or found.sentence()):
        stream = None if found.total.stream_epsilon is None else rounded_up(found.total.stream_epsilon)
        together = f"Together they cost {_stream(stream, found.total.stream_delta)}." if found.earlier else ""
        yield "all runs", f"{found.sentence()} {together}".strip()
    yield "guarantee", account.guarantee


_BY_PLANS = (
    " in this run at most (by the plans that name it, at its last heartbeat, and by this file's settings; if "
    "it was started with --spent, that many more)"
)


def _up(epsilon: float) -> str:
    return f"{up_to_digits(epsilon):,.6g}"


def _stream(epsilon: float | None, delta: float) -> str:
    if epsilon is None:
        return "more of the whole stream than is known"
    return f"epsilon {_up(epsilon)}{at_delta(delta)} of the whole stream"


def _left(account: Account) -> str:
    if account.last_learning_round is None or account.rounds_left is None:
        return "there is no budget to run out"
    rounds = f"{counted(account.rounds_left, 'round')}, up to round {account.last_learning_round:,}"
    rounds = "it learns from no record any more" if account.relaying else rounds
    if account.budget is None or account.left is None:
        return rounds
    return f"{down_to_digits(account.left):,.6g} of the budget of {account.budget:,.6g}: {rounds}"


def _earlier(spend: Spend, run: str) -> str:
    least = "at least " if spend.open else ""
    name = f"run {spend.run}, an earlier life" if spend.run == run else f"run {spend.run}"
    if spend.epsilon is None:
        return f"{name}: nothing is known to have been protected"
    charged = f"{least}{counted(spend.charged, 'round')} charged"
    known = math.isfinite(spend.stream_epsilon)
    stream = f"{least}{_up(spend.stream_epsilon)} of the stream" if known else "of the stream nobody knows"
    return f"{name}: {charged}; epsilon {_up(float(spend.epsilon))} of a record, {stream}"
