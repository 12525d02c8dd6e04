"""What an owner's runs have spent on its set: its journal's price, and `<owner>.spends` beside it.

A line is written when a process starts, and when it ends in order: the number of answers, and the price of
all T of them, as the run may go on.
"""

import math
from contextlib import ExitStack
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import Reuse, Spend
from nodes.decimals import as_text
from streams.mesh.collaboration_file import CollaborationFile
from streams.state.folder import JournalError, StateFolder
from streams.state.owner_journal import OwnerJournal
from streams.state.party_journal import Party, put_aside
from streams.state.spend_file import read_spends
from streams.state.spends import keep_spend


def price(file: CollaborationFile, owner: str) -> Price:
    """Return the price of all answers of an owner, for a record that is in up to `sharing` sets."""
    mesh, terms = file.mesh, file.mesh.owners[owner]
    settings = {
        "mechanism": terms.mechanism,
        "epsilon": as_text(terms.epsilon),
        "gradient_bound": repr(mesh.gradient_bound),
        "queries": str(mesh.queries),
        "records": str(terms.records),
        "sharing": str(mesh.sharing),
    }
    return Price(terms.epsilon, terms.delta or 0.0, 0.0, tuple(settings.items()))


def promise(file: CollaborationFile, owner: str) -> str:
    """Return the guarantee to the owner of a record, as a sentence."""
    return file.resolved.guarantee(owner).sentence(owner)


class OwnerSpend:
    """One process's view of what its set has cost so far. Create it before the journal is opened."""

    def __init__(self, file: CollaborationFile, owner: str, state: Path) -> None:
        self._file, self._owner, self._folder = file, owner, StateFolder(state)
        self._price = price(file, owner)

    def journal(self, instance: str) -> OwnerJournal:
        """Open the owner's journal, or make it; that of another run is put aside.

        Raises JournalError, also if `.spends` knows of more answers: then an older journal was put back.
        """
        mesh, path = self._file.mesh, self._folder.journal(self._owner)
        party = Party(mesh.name, mesh.run, self._owner, self._file.digest(), mesh.agreed_text, self._price)
        put_aside(path, OwnerJournal, party)
        journal = OwnerJournal.opened(path, party, instance)
        with ExitStack() as refused:
            refused.callback(journal.close)
            told, known = self.told, len(journal.records)
            if told > known:
                raise JournalError(
                    f"{path}: {told} queries were answered, and it knows of {known}: it must be the newest "
                    f"one, or the run a new one"
                )
            refused.pop_all()
        return journal

    def begin(self, journal: OwnerJournal) -> str:
        """Record that the run continues; return the sentence after the guarantee. Raises JournalError."""
        own = keep_spend(self._path, self._spend(journal, self._folder.id(), is_open=True))
        return self._reuse(own).sentence()

    def end(self, journal: OwnerJournal) -> None:
        """Record what was charged. Raises JournalError."""
        keep_spend(self._path, self._spend(journal, self._folder.id(), is_open=False))

    def reuse(self, journal: OwnerJournal | None) -> Reuse:
        """Return what all runs have spent, by the folder (`journal` None: it has none). Writes nothing."""
        return self._reuse(self._spend(journal, self._folder.known_id(), is_open=False))

    def _reuse(self, own: Spend) -> Reuse:
        """Return the reuse seen by this life; of two lines of it that with more answers counts."""
        spends = read_spends(self._path)
        told = max((one.charged for one in spends if one.identity == own.identity), default=0)
        earlier = [one for one in spends if one.identity != own.identity]
        return Reuse(tuple(earlier), own._replace(charged=max(own.charged, told)))

    @property
    def told(self) -> int:
        """The answers of this run that `.spends` knows of, whichever journal they are in."""
        mesh = self._file.mesh
        lives = [one for one in read_spends(self._path) if (one.mesh, one.run) == (mesh.name, mesh.run)]
        return max((one.charged for one in lives), default=0)

    @property
    def _path(self) -> Path:
        return self._folder.spends(self._owner)

    def _spend(self, journal: OwnerJournal | None, folder: str, *, is_open: bool) -> Spend:
        """Return the run's spend. A run that has answered once counts as all of its answers."""
        found = self._price
        return Spend(
            self._file.mesh.run,
            0 if journal is None else len(journal.records),
            found.epsilon,
            found.delta,
            math.inf,  # no answer hides a whole set
            0.0,
            open=is_open,
            mesh=self._file.mesh.name,
            folder=folder,
            life="" if journal is None else journal.instance,
            settings=found.settings,
        )
