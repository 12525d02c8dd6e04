"""What an owner of a collaboration has spent, by its journal and the lines beside it."""

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from nodes.decimals import rounded_up
from streams.ledger import Reuse, known_spends, promises_of
from streams.live.spend import recorded_answers
from streams.mesh.errors import UsageError, chosen
from streams.mesh.file import CollaborationFile
from streams.state.folder import StateFolder
from streams.state.owner_journal import OwnerJournal
from streams.state.spends_topic import written


class OwnerTotal(NamedTuple):
    """The total of all known runs on a set; None where one of them is not known to protect anything."""

    epsilon: float | None
    delta: float | None


class OwnerAccount(NamedTuple):
    """What `charged` of `queries` answers have spent of the `epsilon` that all of them may spend.

    Both are the owner's epsilon over `sharing`, and `delta` so its delta. `all_runs`: with the other runs
    that the state folder knows of, for a record that is in up to `sharing` sets.
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
