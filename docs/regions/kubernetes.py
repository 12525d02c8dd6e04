"""The example in deploy/kubernetes: what `export kubernetes` writes of its mesh file."""

from collections.abc import Iterator
from pathlib import Path

from streams.tools.export import kubernetes
from streams.tools.export.asked import INDEX, write_folder
from streams.tools.export.cluster import Cluster
from streams.tools.export.raw_mesh import party, read

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
PARTY = "bank-1"
IMAGE = f"registry.example/mirrormesh@sha256:{'0' * 64}"


def examples() -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield each folder of the example, and the files that it should have."""
    raw, cluster = read(FOLDER / "income.yaml"), Cluster(IMAGE)
    yield FOLDER / PARTY, kubernetes.party(raw, party(raw.file.mesh, PARTY), cluster)
    yield FOLDER / "operator", kubernetes.operator(raw, cluster)


def write() -> Iterator[Path]:
    """Write anew what is out of date; yield its folders."""
    for folder, files in examples():
        if held(folder) != files:
            write_folder(folder, files)
            yield folder


def held(folder: Path) -> dict[str, str]:
    """Return the files of a folder, but its index."""
    return {path.name: path.read_text("utf-8") for path in folder.glob("*") if path.name != INDEX}
