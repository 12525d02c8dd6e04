"""A journal in memory on a disk that fails: full, torn, restored, copied."""

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.state.folder import JournalError
from streams.state.memory_journal import MemoryJournal


class DiskFull(JournalError):
    """A planted fault: the record is not durable, and the process must end before it sends."""


class FaultyJournal(MemoryJournal):
    """The journal of one node's folder. `full`: nothing more can be written."""

    def __init__(self, instance: str, horizon: int) -> None:
        super().__init__(instance, horizon)
        self.full = False
        self._secrets: dict[int, Secret | None] = {}

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep both. Raises DiskFull, JournalError."""
        if self.full:
            raise DiskFull("no space is left on the device")
        super().append(record, secret)
        self._secrets[record.round] = secret

    def lose(self, count: int) -> int:
        """Forget the newest records, as an older copy of the folder has; return how many."""
        dropped = min(count, len(self._records))
        for _ in range(dropped):
            self._records.pop()
        self._secret = self._secrets.get(self._records[-1].round) if self._records else None
        return dropped

    def copied(self) -> "FaultyJournal":
        """Return a copy of the folder."""
        copy = FaultyJournal(self.instance, 1)
        copy.carried, copy._records, copy._secret = self.carried, self._records.copy(), self._secret
        copy._secrets = dict(self._secrets)
        return copy
