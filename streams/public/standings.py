"""Where nodes stand: by a journal in a state folder, or by what is public on the mesh broker."""

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from streams.bus.bus import BusError
from streams.bus.logs import Logs, reached
from streams.codec import Refused, decode_heartbeat, decode_plan
from streams.codec.topics import MeshTopics
from streams.mesh import building as build
from streams.mesh.file import MeshFile
from streams.public.account import Standing
from streams.state.journal import JournalReader, told_price
from streams.state.journal_file import JournalEmpty, JournalError
from topology.plans import Plan


def journal_standing(state: Path, file: MeshFile, node: str) -> Standing | None:
    """Return where a node stands by its journal, beside the process that writes it; None where none is there.

    Raises JournalError where it is of other settings, or broken.
    """
    path = state / f"{node}.journal"
    if not path.exists():
        return None
    try:
        with JournalReader(path) as journal:
            life, records, price = journal.life, journal.records(1), journal.price
            charged = journal.charged
    except JournalEmpty:
        return None
    if (life.run, life.node) != (file.mesh.run, node):
        raise JournalError(
            f"{path} is of node {life.node} in run {life.run}, not of {node} in {file.mesh.run}"
        )
    if life.digest != file.digest():
        raise JournalError(f"{path} is of other settings of the mesh: its account is not known")
    if charged:
        now = build.price(file.mesh, node)
        price = price or told_price(state, life)
        changed = price and price.changed(now)
        if changed:
            raise JournalError(
                f"{path}: {node}'s {changed.key} was {changed.was} in this run, not {changed.now}: "
                "by this file its account is not known"
            )
    stepped = records[-1].stepped if records else 0
    return Standing(stepped, charged, exactly=True, priced=not charged or price is not None)


def public_standings(file: MeshFile, nodes: Iterable[str]) -> dict[str, Standing]:
    """Return where nodes stand by plans and heartbeats on the mesh broker: what they have charged at most.

    Raises BusError, MeshFileError.
    """
    mesh, digest = file.mesh, file.digest()
    topics = MeshTopics(mesh.name, mesh.run)
    with closing(reached(file.mesh_broker)) as logs:
        plans = []
        for stored in logs.read({topics.topology: logs.span(topics.topology)[0]})[topics.topology]:
            with suppress(Refused):
                plans.append(decode_plan(stored.value, mesh.run, digest))
        stepped = {node: _stepped(logs, topics, node, mesh.run, digest) for node in nodes}
    return {node: standing_by(plans, node, last) for node, last in stepped.items()}


def standing_by(plans: list[Plan], node: str, stepped: int | None) -> Standing:
    """Return where a node stands at most, by the plans that are kept; `stepped` None: as far as they lead.

    A plan says how many before it named the node: the first after the last step counts them all.
    """
    following = next((plan for plan in plans if stepped is not None and plan.round > stepped), None)
    if following is not None:
        return Standing(stepped or 0, dict(following.named).get(node, 0), exactly=False)
    if not plans:
        return Standing(stepped or 0, stepped or 0, exactly=False)
    last = plans[-1]
    named = dict(last.named).get(node, 0) + any(member.name == node for member in last.members)
    return Standing(last.round if stepped is None else stepped, named, exactly=False)


def _stepped(logs: Logs, topics: MeshTopics, node: str, run: str, digest: bytes) -> int | None:
    """Return the last round that the node says it has stepped; None where that may not be read."""
    topic = topics.progress(node)
    try:
        first, end = logs.span(topic)
        stored = logs.read({topic: max(first, end - 1)})[topic]
        return decode_heartbeat(stored[-1].value, run, node, digest).stepped if stored else 0
    except (BusError, Refused):
        return None
