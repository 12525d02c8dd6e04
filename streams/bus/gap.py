"""Finds the way around records that no client can read, such as a broken or boundless compressed batch.

A batch fails as a whole, at each of its offsets, and tells its first offset alone. So the reader asks for
offsets further and further on until one is not of that batch, and then halves the distance. That finds the
first offset behind the batch, and passes over nothing else: one offset is asked for a batch of one record,
about 2 log2(n) for one of n.
"""


class Gap:
    """The offsets from `first` on of the unreadable batch that begins at `batch`.

    `asked` is the offset to read from next. Say what came of it by `unreadable` or `readable`: either returns
    whether `asked` is the first offset behind the gap; if not, read from it. A log's end counts as readable.
    """

    def __init__(self, first: int, batch: int) -> None:
        self.first, self.asked = first, first + 1
        self._batch = batch
        self._last = first  # the highest offset known as of the batch
        self._behind: int | None = None  # the lowest one known as behind it

    def unreadable(self, batch: int) -> bool:
        """Take that what comes next cannot be read, in the batch that begins at `batch`."""
        if batch != self._batch:
            self.asked = max(self._last + 1, min(self.asked, batch))
            return self.readable()
        self._last = self.asked
        if self._behind is not None and self._behind <= self._last:  # the log is another one by now
            self._behind = None
        self._ask()
        return False

    def readable(self) -> bool:
        """Take that `asked` is not of the batch."""
        if self.asked == self._last + 1:
            return True
        self._behind = self.asked
        self._ask()
        return False

    def _ask(self) -> None:
        if self._behind is None:
            self.asked = 2 * self._last - self.first + 1
        else:
            self.asked = max(self._last + 1, (self._last + self._behind) // 2)
