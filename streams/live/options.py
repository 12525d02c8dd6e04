"""The operator's options of a node process."""

from dataclasses import dataclass
from pathlib import Path

from nodes.accounting.spends import DataReuse
from streams.mesh.settings.addresses import Address


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`spent`: charged rounds of unknown runs; `reuse`: whether records used by them will be read again."""

    state: Path
    spent: int | None = None
    reuse: DataReuse | None = None
    decisions: bool = True
    metrics: Address | None = None
    private_metrics: Address | None = None
    web: Address | None = None
