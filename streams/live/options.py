"""What an operator says of one process of a node."""

from dataclasses import dataclass
from pathlib import Path

from nodes.accounting.spends import DataReuse
from streams.mesh.settings.addresses import Address


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`spent`: charged rounds of runs that nobody knows; `reuse`: what of their records is read again."""

    state: Path
    spent: int | None = None
    reuse: DataReuse | None = None
    decisions: bool = True
    metrics: Address | None = None
    private_metrics: Address | None = None
    web: Address | None = None
