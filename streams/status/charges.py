"""The progress and spending of nodes, from a journal in a state folder or from the public broker."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import overload

from nodes.accounting.spends import Spend
from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog, messages
from streams.ledger import Reuse, known_spends
from streams.mesh.file import AnyFile, CollaborationFile, MeshFile
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalEmpty
from streams.state.journal_reader import JournalReader
from streams.state.spends_topic import written
from streams.status.account import ChargeCount, PrivacyAccount, account
from streams.status.owner_account import OwnerAccount
from topology.plans import Plan


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
    """Return nodes' charge_counts by plans and heartbeats on the mesh broker: upper bounds of their charges.

    Of a node in `instances` there is none if the stored plans are all of the run's so far and name no other
    instance of it: then nothing was charged before that one. Raises BusError, MeshFileError.
    """
    with closing(reached(file.mesh_broker)) as logs:
        log = MeshLog.of(file, logs)
        plans = [plan for record in messages(log.plans()) for plan in record.plans]
        first = {name for name, instance in (instances or {}).items() if _is_first(plans, name, instance)}
        stepped = {node: _stepped(log, node) for node in nodes if node not in first}
    return charge_counts_by(plans, stepped)


def _is_first(plans: Collection[Plan], node: str, instance: str) -> bool:
    whole = not plans or min(plans, key=lambda plan: plan.round).follows == 0
    members = (plan.member(node) for plan in plans)
    return whole and all(member is None or member.instance == instance for member in members)


def charge_counts_by(plans: Collection[Plan], stepped: Mapping[str, int | None]) -> dict[str, ChargeCount]:
    """Return upper bounds of nodes' charge_counts by all stored plans; `stepped` None: it is not known.

    A plan holds the number of earlier plans that name a node. A heartbeat may be older than the last charge,
    so plans after it count too. Each plan is read once, however many nodes there are.
    """
    named: dict[str, int] = {}
    for plan in plans:
        counts = dict(plan.named)
        counts |= {member.name: counts.get(member.name, 0) + 1 for member in plan.members}
        named |= {name: count for name, count in counts.items() if count > named.get(name, 0)}
    planned = max((plan.follows if plan.ended else plan.round for plan in plans), default=None)
    charge_counts = {}
    for node, reported in stepped.items():
        latest = (reported or 0) if planned is None else planned
        last = latest if reported is None else reported
        charged = last if planned is None else named.get(node, 0)
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
def budget(file: MeshFile, node: str, state: Path | None = None) -> PrivacyAccount: ...


@overload
def budget(file: CollaborationFile, node: str, state: Path | None = None) -> OwnerAccount: ...


def budget(file: AnyFile, node: str, state: Path | None = None) -> PrivacyAccount | OwnerAccount:
    """Return the privacy that a node, or an owner, has spent in the mesh file's run, and the rest.

    The numbers are exact if the folder `state` holds the node's journal. Otherwise they are upper bounds from
    the mesh broker; an owner's are in its journal alone. Raises JournalError, BusError, MeshFileError,
    UsageError.
    """
    account_of_one: PrivacyAccount | OwnerAccount = file.kind.account(file, node, state)
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
