"""Writes the generated parts of the documentation from the code: `python -m docs.generate`.

A page marks such a part with two comments, `<!-- generated: NAME -->` and `<!-- end: NAME -->`. What stands
between them is replaced; everything else on the page is written by hand. The manifests in deploy/kubernetes
are generated too.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.regions import (
    access,
    command_line,
    folders,
    kubernetes,
    log,
    mesh_file,
    metrics,
    state_folder,
    wire,
)

FOLDER = Path(__file__).parent
REGIONS: dict[str, Callable[[], str]] = {
    "access": access.region,
    "commands": command_line.region,
    "folders": folders.region,
    "journal": state_folder.journal,
    "learner journal": state_folder.learner_journal,
    "log events": log.region,
    "mesh file": mesh_file.region,
    "messages": wire.messages,
    "metrics": metrics.table,
    "node machine": folders.node_machine,
    "owner journal": state_folder.owner_journal,
    "reasons": wire.reasons,
    "scheduler machine": folders.scheduler_machine,
    "starter": mesh_file.starter,
    "state files": state_folder.files,
    "topics": wire.topics,
}
_MARKED = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that has a generated part, and the text that it should have."""
    for path in sorted(FOLDER.rglob("*.md")):
        text = path.read_text()
        if _MARKED.search(text):
            yield path, generated(text)


def generated(text: str) -> str:
    """Return the page with its marked parts written anew. Raises KeyError for a name that is none."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{REGIONS[found[2]]().strip()}\n\n{found[3]}", text)


if __name__ == "__main__":
    for page, wanted in pages():
        if page.read_text() != wanted:
            page.write_text(wanted)
            print(f"wrote {page}")
    for folder in kubernetes.write():
        print(f"wrote {folder}")
