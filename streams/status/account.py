"""The privacy that nodes and owners have spent: by a journal in a state folder, or from the public broker."""

import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Literal, NamedTuple, overload

from nodes.accounting.guarantee import Ledger
from nodes.accounting.spends import Spend
from nodes.checks import rounded_up
from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog, messages
from streams.collaboration.file import CollaborationFile
from streams.collaboration.journals import OwnerJournal, recorded_answers
from streams.ledger import Promise, Reuse, known_spends, promises_of
from streams.mesh.errors import UsageError, as_path_or_none, chosen, no_file
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.kind import check_file, check_member
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalEmpty, JournalReader
from streams.state.spends_topic import written
from topology.plans import Plan

# A node's account, from the number of rounds it has charged and its public settings.


class ChargeCount(NamedTuple):
    """The last round that a node has stepped, and the number of rounds it has charged.

    `exactly`: the numbers come from the node's own journal. Otherwise `charged` counts all plans that name
    the node, up to round `planned`; the node may have missed some of them, or not have reached them yet.
    `priced`: as far as known, the rounds were charged at the current settings. `whole`: no earlier life of
    the run may have charged more. `instance`: the journal's own id; "" if the numbers come from plans.
    """

    stepped: int
    charged: int
    exactly: bool
    priced: bool = True
    planned: int = 0
    whole: bool = True
    instance: str = ""

    @property
    def reached(self) -> int:
        """The last round that may have been charged."""
        return max(self.stepped, self.planned)


class PrivacyAccount(NamedTuple):
    """The privacy that a node has spent, and the rest. None: nothing is protected, or there is no budget.

    `epsilon`, `delta`: for a record (event level; 0 before the first charge). `spent`, `left`: for the whole
    stream, at `stream_delta`. `rounds_left`: the number of rounds in which the node may still learn.
    `rounds_unused`: once the node learns no more, the number of rounds in which it might have learnt (a lower
    bound if it comes from plans). `guarantee`: the guarantee over all known spending. `at_most`: an earlier
    life of the run may have charged more, so that less is left.
    """

    node: str
    source: Literal["journal", "plans"]
    stepped: int
    charged: int
    protected: bool
    epsilon: float | None
    delta: float
    spent: float | None
    stream_delta: float
    composition: str | None
    budget: float | None
    left: float | None
    last_learning_round: int | None
    rounds_left: int | None
    rounds_unused: int | None
    relaying: bool
    adjacency: dict[str, str]
    guarantee: str
    at_most: bool = False
    of: str = "record"


ADJACENCY = {
    "epsilon": "event: one record of the node",
    "spent": "stream: all records of the node",
}


def account(
    file: MeshFile, node: str, charge_count: ChargeCount, known: Reuse | None = None
) -> PrivacyAccount:
    """Return the account of a node of the mesh; `known`: of all spending on its data."""
    ledger, promised = file.resolved.node(node).ledger, file.resolved.node(node).guarantee
    charged = charged_by(ledger, charge_count)
    spent = ledger.spent(charged, charge_count.reached)
    epsilon_left = ledger.left(charged, charge_count.reached)
    return PrivacyAccount(
        node=node,
        source="journal" if charge_count.exactly else "plans",
        stepped=charge_count.stepped,
        charged=charged,
        protected=promised.protects and charge_count.priced,
        epsilon=None
        if promised.epsilon is None or not charge_count.priced
        else rounded_up(promised.epsilon)
        if charged
        else 0.0,
        delta=promised.delta,
        spent=None if math.isinf(spent) or not charge_count.priced else spent,
        stream_delta=ledger.delta,
        composition=None if ledger.composition is None else ledger.composition.words,
        budget=None if ledger.budget is None else -rounded_up(-ledger.budget),
        left=None if math.isinf(epsilon_left) else epsilon_left,
        last_learning_round=ledger.last_learning_round,
        rounds_left=_rounds_left(ledger, charge_count.stepped, charged),
        rounds_unused=unused(ledger, charge_count),
        relaying=relays(ledger, charge_count),
        adjacency=ADJACENCY
        if promised.unit is None
        else ADJACENCY | {"epsilon": f"unit: all records of one {promised.unit.column}"},
        guarantee=Promise(node, promised, known).sentence,
        at_most=not charge_count.whole,
        of=promised.protected,
    )


def charged_by(ledger: Ledger, charge_count: ChargeCount) -> int:
    """Return the number of charged rounds at most: a node charges no round after its last learning round."""
    last = ledger.last_learning_round
    return charge_count.charged if charge_count.exactly or last is None else min(charge_count.charged, last)


def relays(ledger: Ledger, charge_count: ChargeCount) -> bool:
    """Return whether the node learns no more. Plans ahead of it end no learning."""
    charged = (
        charge_count.charged if charge_count.exactly else min(charge_count.charged, charge_count.stepped)
    )
    return not ledger.may_learn(charge_count.stepped + 1, charged)


def unused(ledger: Ledger, charge_count: ChargeCount) -> int | None:
    """Return how many rounds of the budget were left when the learning ended; None before its end.

    The last learning round is a round number: a node that was away stops in it like all others.
    """
    last = ledger.last_learning_round
    if last is None or not relays(ledger, charge_count):
        return None
    return max(0, last - charged_by(ledger, charge_count))


def _rounds_left(ledger: Ledger, stepped: int, charged: int) -> int | None:
    last = ledger.last_learning_round
    return None if last is None else max(0, last - max(stepped, charged))


# The spending of an owner of a collaboration, by its journal and the lines beside it.


class OwnerTotal(NamedTuple):
    """The total of all known runs on a set.

    A value is None if one of them is not known to protect anything.
    """

    epsilon: float | None
    delta: float | None


class OwnerAccount(NamedTuple):
    """What `charged` of `queries` answers have spent of the `epsilon` that all of them may spend.

    Both epsilons are divided by `sharing`, and so is `delta`. `all_runs`: the total with the other runs that
    the state folder knows of, for a record that is in up to `sharing` sets.
    """

    owner: str
    charged: int
    queries: int
    epsilon_spent: float
    epsilon: float
    delta: float
    all_runs: OwnerTotal
    guarantee: str
    reuse: Reuse


def owner_account(file: CollaborationFile, owner: str, state: Path | None) -> OwnerAccount:
    """Return an owner's account, by its journal and `.spends` in the folder. Writes nothing.

    Raises UsageError for an unknown owner, without a folder, and for the journal of another run.
    """
    chosen(file.mesh.owners, owner, "an owner of the collaboration")
    if state is None:
        raise UsageError("--state: must be given: an owner's spending is in its journal")
    if not state.is_dir():
        raise UsageError(f"{state}: is no folder: must be the state folder of a run or an owner")
    path = StateFolder(state).journal(owner)
    with ExitStack() as closing:
        journal = closing.enter_context(OwnerJournal.read(path)) if path.exists() else None
        if journal is not None and journal.life.run != file.mesh.run:
            raise UsageError(f"{path}: is of run {journal.life.run}, not of {file.mesh.run}")
        answered = 0 if journal is None else len(journal.records)
    mechanism = file.resolved.mechanism(owner)
    charged = max(recorded_answers(file, owner, state), answered)
    idle = () if charged else (owner,)
    reuse = known_spends(file, [owner], state, written(file, [owner]), idle=idle)[owner]
    return OwnerAccount(
        owner,
        charged,
        mechanism.queries,
        mechanism.spent(charged),
        mechanism.spent(mechanism.queries),
        mechanism.own_delta,
        _total(reuse),
        promises_of(file, {owner: reuse})[owner].sentence,
        reuse,
    )


def _total(reuse: Reuse) -> OwnerTotal:
    epsilon, delta, *_ = reuse.total
    return OwnerTotal(None, None) if epsilon is None else OwnerTotal(rounded_up(epsilon), delta)


# The progress and spending of nodes, from a journal in a state folder or from the public broker.


def journal_charge_count(state: Path, file: MeshFile, node: str) -> ChargeCount | None:
    """Return a node's charge count by its journal; None if there is none. The node may be running.

    Raises JournalError if the journal belongs to other settings, or is broken.
    """
    path = StateFolder(state).journal(node)
    if not path.exists():
        return None
    try:
        with JournalReader(path) as journal:
            life, records, price = journal.life, journal.records(1), journal.price
            differences = journal.differing(file.mesh.agreed_text)
            charged = journal.charged
    except JournalEmpty:
        return None
    if (life.run, life.node) != (file.mesh.run, node):
        raise JournalError(
            f"{path} is of node {life.node} in run {life.run}, not of {node} in {file.mesh.run}"
        )
    if life.digest != file.digest():
        suffix = f" ({differences})" if differences else ""
        raise JournalError(f"{path} is of other settings of the mesh{suffix}: its account is not known")
    if charged:
        now = file.resolved.node(node).price
        changed = price and price.changed(now)
        if changed:
            raise JournalError(
                f"{path}: {node}'s {changed.key} was {changed.was} in this run, not {changed.now}: "
                "by this file its account is not known"
            )
    stepped = records[-1].stepped if records else 0
    priced = not charged or price is not None
    return ChargeCount(stepped, charged, exactly=True, priced=priced, instance=life.instance)


def public_charge_counts(
    file: MeshFile, nodes: Iterable[str], instances: Mapping[str, str] | None = None
) -> dict[str, ChargeCount]:
    """Return nodes' charge counts by plans and heartbeats on the mesh broker: upper bounds of their charges.

    A node in `instances` has no count if the stored plans are all plans of the run so far, and name no other
    instance of the node: then nothing was charged before that instance. Raises BusError, MeshFileError.
    """
    with closing(reached(file.mesh_broker)) as logs:
        log = MeshLog.of(file, logs)
        plans = [plan for record in messages(log.plans()) for plan in record.plans]
        first = {name for name, instance in (instances or {}).items() if _is_first(plans, name, instance)}
        stepped = {node: _stepped(log, node) for node in nodes if node not in first}
    return charge_counts_by(plans, stepped)


def _is_first(plans: Collection[Plan], node: str, instance: str) -> bool:
    covers_start = not plans or min(plans, key=lambda plan: plan.round).follows == 0
    members = (plan.member(node) for plan in plans)
    return covers_start and all(member is None or member.instance == instance for member in members)


def charge_counts_by(plans: Collection[Plan], stepped: Mapping[str, int | None]) -> dict[str, ChargeCount]:
    """Return upper bounds of nodes' charge_counts by all stored plans; `stepped` None: it is not known.

    A plan holds the number of earlier plans that name a node. A heartbeat may be older than the last charge,
    so plans after the heartbeat count too. Each plan is read once for all nodes.
    """
    plan_counts: dict[str, int] = {}
    for plan in plans:
        counts = dict(plan.named)
        counts |= {member.name: counts.get(member.name, 0) + (not plan.closing) for member in plan.members}
        plan_counts |= {name: count for name, count in counts.items() if count > plan_counts.get(name, 0)}
    planned = max((plan.follows if plan.ended else plan.round for plan in plans), default=None)
    charge_counts = {}
    for node, reported in stepped.items():
        latest = (reported or 0) if planned is None else planned
        last = latest if reported is None else reported
        charged = last if planned is None else plan_counts.get(node, 0)
        charge_counts[node] = ChargeCount(last, charged, exactly=False, planned=latest)
    return charge_counts


def _stepped(log: MeshLog, node: str) -> int | None:
    """Return the last round that the node reports as stepped; None if reading is not allowed."""
    try:
        beats = log.heartbeats(node, last=1)
    except BusError:
        return None
    decoded = messages(beats)
    return decoded[-1].stepped if decoded else (None if beats else 0)


@overload
def budget(file: MeshFile, node: str, state: str | Path | None = None) -> PrivacyAccount: ...


@overload
def budget(file: CollaborationFile, node: str, state: str | Path | None = None) -> OwnerAccount: ...


def budget(file: AnyFile, node: str, state: str | Path | None = None) -> PrivacyAccount | OwnerAccount:
    """Return the privacy that a node, or an owner, has spent in the mesh file's run, and the rest.

    The numbers are exact if the folder `state` holds the node's journal. Otherwise they are upper bounds from
    the mesh broker; an owner's are in its journal alone. Raises JournalError, BusError, MeshFileError,
    UsageError.
    """
    check_file("file", file)
    check_member("node", node, file)
    folder = no_file(as_path_or_none("state", state))
    account_of_one: PrivacyAccount | OwnerAccount = file.kind.account(file, node, folder)
    return account_of_one


def node_account(file: MeshFile, node: str, state: Path | None = None) -> PrivacyAccount:
    """Return what a node has spent; see `budget`."""
    return accounts(file, [node], state)[node][0]


def accounts(
    file: MeshFile, names: Iterable[str], state: Path | None
) -> dict[str, tuple[PrivacyAccount, Reuse]]:
    """Return the accounts of the nodes, and what is known of all spending on their data.

    Raises as `budget`.
    """
    charged = charge_counts(file, names, state)
    idle = [name for name, charge_count in charged.items() if not charge_count.charged]
    reuses = known_spends(file, charged, state, written(file, charged), idle=idle)
    return {
        name: (account(file, name, _with_earlier(charge_count, reuses[name]), reuses[name]), reuses[name])
        for name, charge_count in charged.items()
    }


def _with_earlier(charge_count: ChargeCount, known: Reuse) -> ChargeCount:
    """Return the charge count with the charges of the run's earlier lives, which its journal may not have."""
    spend = known.own
    lives = [life for life in known.earlier if _is_earlier(life, spend)]
    earlier = sum(life.charged for life in lives)
    carried = earlier if spend.by_plans else spend.charged + earlier
    return charge_count._replace(
        charged=max(charge_count.charged, carried),
        whole=charge_count.whole and not any(life.open for life in lives),
    )


def _is_earlier(life: Spend, own: Spend) -> bool:
    return (life.mesh, life.run, life.node) == (own.mesh, own.run, own.node)


def charge_counts(file: MeshFile, names: Iterable[str], state: Path | None) -> dict[str, ChargeCount]:
    """Return the charge count of the nodes, in order. Raises as `budget`."""
    journalled = {name: None if state is None else journal_charge_count(state, file, name) for name in names}
    missing = [name for name, charge_count in journalled.items() if charge_count is None]
    if missing and state is not None and not file.names_brokers:
        missing_nodes = f"{', '.join(missing)} in run {file.mesh.run}"
        raise JournalError(
            f"{state} holds no journal of {missing_nodes}, and the mesh file names no broker to ask"
        )
    public = public_charge_counts(file, missing) if missing else {}
    instances = {
        name: charge_count.instance
        for name, charge_count in journalled.items()
        if charge_count is not None and not charge_count.stepped
    }
    if instances and file.names_brokers:
        with suppress(BusError):  # a journal without a round does not know what plans counted before it
            public |= public_charge_counts(file, instances, instances)
    return {name: _larger(charge_count, public.get(name)) for name, charge_count in journalled.items()}


def _larger(journalled: ChargeCount | None, public: ChargeCount | None) -> ChargeCount:
    """Return the charge count of the two that has charged more; the journal's if they are equal."""
    charge_counts = [charge_count for charge_count in (journalled, public) if charge_count is not None]
    return max(charge_counts, key=lambda charge_count: charge_count.charged)
