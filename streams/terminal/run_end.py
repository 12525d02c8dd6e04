"""Words the reason why a run in one process ended."""

from pathlib import Path

from streams.local.run import LocalRun
from streams.mesh.errors import MeshFileError
from streams.mesh.file import MeshFile
from streams.records.slot_feed import MOST_COUNTED
from streams.terminal.wording import counted, listed


def starved(local: LocalRun) -> list[str]:
    """Return the nodes whose records did not fill one more slot: they ended the run."""
    return [name for name, node in local.mesh.nodes.items() if node.starved]


def too_short(local: LocalRun, file: MeshFile) -> list[str]:
    """Return a line for each source that holds fewer records than one slot; for a new run without a round."""
    lines: list[str] = []
    least = file.mesh.slots.size
    for name in starved(local):
        if not local.recorder.nodes[name].rounds:
            allowed = (
                f"has {counted(local.unread(name), 'record')}: must have at least {least:,}, to fill one slot"
            )
            lines += file.refuse(("nodes", name, "source"), allowed).lines
    return lines


def why_nothing(local: LocalRun) -> str:
    """Return why no round was run."""
    if local.mesh.done:
        return "No round was run: the run had ended before."
    if starved(local):
        return f"No round was run: of {', '.join(starved(local))} fewer records are left than one slot holds."
    return "No round was run: the nodes could not go on from their journals."


def what_ended(local: LocalRun, file: MeshFile) -> str:
    """Return which nodes have no full slot left, and how many records the others have not learnt from.

    Only files are read for that: a pipe may not end, nor standard input, a generator or an own source.
    """
    unread = []
    for name in file.mesh.nodes:
        path = getattr(file.own(name).source, "path", None)
        if name in starved(local) or not Path(path or "-").is_file():
            continue
        try:
            number = local.unread(name)
        except MeshFileError:  # the rest of the file is damaged
            unread.append(f"{name} unknown")
            continue
        more = "over " if number > MOST_COUNTED else ""
        unread.append(f"{name} {more}{min(number, MOST_COUNTED):,}")
    has = "has" if len(starved(local)) == 1 else "have"
    rest = f"; unread: {listed(unread)}" if unread else ""
    return f"{listed(starved(local))} {has} no full slot left{rest}."
