"""What an owner's runs have spent on its set: its journal's price, and `<owner>.spends` beside it.

A line is written when a process starts, and when it ends in order: the number of answers, and the price of
all T of them, as the run may go on. Where the set is a topic, its lines are beside it too, as a node's are.
"""

from contextlib import ExitStack, suppress
from pathlib import Path

from nodes.accounting.spends import Spend, merged_lives
from streams.bus.bus import BusError
from streams.ledger import Reuse, data_of, known_spends, price_of, stated_apart
from streams.mesh.collaboration_file import CollaborationFile
from streams.state.folder import JournalError, StateFolder
from streams.state.owner_journal import OwnerJournal
from streams.state.party_journal import RunParty, put_aside
from streams.state.spend_file import keep_spends, read_spends
from streams.state.spends_topic import SpendsTopic, unwritten


class OwnerSpend:
    """One process's view of what its set has cost so far. Create it before the journal is opened."""

    def __init__(self, file: CollaborationFile, owner: str, state: Path, *, other_data: bool = False) -> None:
        self._file, self._owner, self._state, self._folder = file, owner, state, StateFolder(state)
        self._price, self._other_data = price_of(file, owner), other_data
        self._topic: SpendsTopic | None = None

    def journal(self, instance: str) -> OwnerJournal:
        """Open the owner's journal, or make it; that of another run is put aside.

        Raises JournalError, also if `.spends` knows of more answers: then an older journal was put back.
        """
        mesh, path = self._file.mesh, self._folder.journal(self._owner)
        party = RunParty(mesh.name, mesh.run, self._owner, self._file.digest(), mesh.agreed_text, self._price)
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

    def begin(self, journal: OwnerJournal, topic: SpendsTopic | None = None) -> Spend:
        """Record that the run continues, in the folder and in the topic; return its life.

        Raises JournalError, BusError.
        """
        self._topic = topic
        data = data_of(self._file, self._owner, topic=None if topic is None else topic.data)
        spend = journal.spend._replace(folder=self._folder.id())
        known = merged_lives(read_spends(self._path)).get(spend.identity)
        stated = self._other_data and not journal.records
        apart = stated_apart(self._file, self._state, {self._owner: data}, other_data=stated)
        spend = spend._replace(
            open=True, data=data, apart=apart[self._owner], turn=1 if known is None else known.turn + 1
        )
        spend = keep_spends(self._path, spend)
        if topic is not None:
            folder = self._folder.id()
            here = [line._replace(folder=line.folder or folder) for line in read_spends(self._path)]
            topic.write(unwritten(here, topic.read()))
            others = [life for life in topic.read() if life.identity != spend.identity]
            if others:  # so that the folder knows what its process knew
                keep_spends(self._path, *others)
        return spend

    def known(self, own: Spend) -> Reuse:
        """Return what is known of the set. Raises JournalError, BusError."""
        lines = {self._owner: None if self._topic is None else self._topic.read()}
        return known_spends(self._file, [self._owner], self._state, lines, own={self._owner: own})[
            self._owner
        ]

    def end(self, journal: OwnerJournal) -> None:
        """Record what was charged. Raises JournalError."""
        spend = journal.spend._replace(folder=self._folder.id())
        known = merged_lives(read_spends(self._path)).get(spend.identity, spend)
        ended = keep_spends(self._path, spend._replace(turn=known.turn))
        if self._topic is not None:
            with suppress(BusError):  # if the broker is away, its line stays open until the next start
                self._topic.send(ended)

    @property
    def told(self) -> int:
        """The answers of this run that the folder's lines know of, whichever journal they are in."""
        this_run = (self._file.mesh.name, self._file.mesh.run)
        lives = [life for life in read_spends(self._path) if (life.mesh, life.run) == this_run]
        return max((life.charged for life in lives), default=0)

    @property
    def _path(self) -> Path:
        return self._folder.spends(self._owner)
