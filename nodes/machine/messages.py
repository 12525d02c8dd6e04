"""What a node says on an edge: a release and whose it is. A pure value; its bytes are `streams.codec`'s."""

from typing import NamedTuple

from nodes.values import Release


class ReleaseMessage(NamedTuple):
    """The release of `source` for `round`, sent unchanged on all its edges.

    `instance` is the life of the journal that holds it. `exact`: made without noise, from public values alone
    (x_1, a joiner's consensus). `simulated`: the noise is seeded, so nothing is protected.
    """

    run: str
    source: str
    instance: str
    round: int
    exact: bool
    simulated: bool
    release: Release
