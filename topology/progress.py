"""The progress of the mesh, as its nodes claim it when a scheduler starts.

Rules
-----
* A node's claim is the last round that it has stepped, as it says when it is first heard after the start, or
  at any time before the run's first plan.
* Nodes step planned rounds alone. So if the lower median of the claims of live nodes is beyond the last plan,
  plans were lost. Nodes that have begun anew since that plan know of none, and have no say if at least
  two others have one; that may turn out later. A plan is at most H ahead of the slowest live node, so no
  honest node has acted on a plan beyond the median + 2H.
* Else the claim of one node alone counts up to the last plan + H, at the start alone: it may skip so many
  rounds, and no more.
"""

from collections.abc import Iterable

MOST = 2**62
"""The last round that anybody believes in: sums with a horizon stay far inside 64 bits."""


class Claims:
    """The claims of progress that one scheduler with horizon H has read."""

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self._claims: dict[str, int] = {}
        self._heard: set[str] = set()
        self._median = 0  # if the last plan is not beyond it, plans were lost
        self._alone = 0  # what one node's claim at the start has counted

    def replay(self, node: str, stepped: int) -> None:
        """Store a claim from the log; the node's newest one counts, and is 0 if it is beyond `MOST`."""
        self._claims[node] = stepped if stepped <= MOST else 0

    def hear(self, node: str, stepped: int, *, begun: bool) -> bool:
        """Handle a claim that was read just now; return whether it counts. `begun`: there is a plan."""
        if begun and node in self._heard:
            return False
        self._heard.add(node)
        self.replay(node, stepped)
        return True

    def median(self, names: Iterable[str]) -> int:
        """Return the lower median of these nodes' claims; one of whom nothing is known claims 0."""
        claims = sorted(self._of(names))
        return claims[(len(claims) - 1) // 2] if claims else 0

    def look(self, names: Iterable[str]) -> None:
        """Find out, by what these nodes claim, whether plans were lost."""
        self._median = self.median(names)

    def start(self, names: Iterable[str], last: int) -> None:
        """Accept a claim of one of these nodes, after the plan of round `last`, at the start alone."""
        self._alone = self.alone(names, last)

    def following(self, last: int, current: int | None) -> tuple[int, bool]:
        """Return the round after the plan of round `last`, and whether the nodes begin again there.

        `current` as in `beyond`.
        """
        if last < self._median:
            return self.beyond(self._median, current), True
        return max(last, self._alone) + 1, last < self._alone

    def first(self, live: list[str], current: int | None) -> tuple[int, bool]:
        """Return the round of the first plan, and whether nodes begin again, as others were lost."""
        median = self.median(live)
        return (self.beyond(median, current), True) if median else (self.alone(live, 0) + 1, False)

    def believed(self, last: int, current: int | None) -> int:
        """Return the most progress that a node may have after the plan of round `last`."""
        return max(self.limit(last), self.following(last, current)[0])

    def largest(self, names: Iterable[str]) -> int:
        """Return the largest claim of these nodes."""
        return max(self._of(names), default=0)

    def alone(self, names: Iterable[str], last: int) -> int:
        """Return the largest claim of one of these nodes up to `last` + H, at least `last`."""
        return max([last, *[claim for claim in self._of(names) if claim <= self.limit(last)]])

    def limit(self, last: int) -> int:
        """Return the largest claim of one node that is believed after the plan of round `last`."""
        return last + self._horizon

    def beyond(self, median: int, current: int | None) -> int:
        """Return a round that no honest node has acted on or beyond, if plans were lost.

        `current`: the clock's round, where slots are periods of time: nobody steps one that is not over.
        """
        safe = median + 2 * self._horizon + 1
        return safe if current is None else min(safe, max(median, current) + 2)

    def _of(self, names: Iterable[str]) -> list[int]:
        return [self._claims.get(name, 0) for name in names]
