"""What a node must know of its mesh, whichever the bus."""

from dataclasses import dataclass

from streams.codec import Expected
from streams.topics import MeshTopics


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node must know of its mesh. `round_timeout` and `silence` None: nobody is given up."""

    topics: MeshTopics
    digest: bytes
    horizon: int
    round_timeout: float | None
    silence: float | None
    own: Expected
    expected: dict[str, Expected]
    targets: tuple[str, ...]
