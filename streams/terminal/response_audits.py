"""Shows the audit of what a collaboration's parties have said."""

from collections.abc import Iterator, Sequence
from typing import Any

from streams.mesh.settings.collaboration import CollaborationSettings
from streams.public.audit_responses import Said, Wrong
from streams.terminal.wording import counted

_SHOWN = 50


def response_facts(
    mesh: CollaborationSettings, found: Sequence[Wrong], said: Said
) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about queries and responses."""
    yield "mesh", f"{mesh.name}, run {mesh.run}"
    query_count = len({message.number for message in said.queries if not message.final})
    answers, records = counted(said.answers, "answer"), counted(len(said.responses), "record")
    yield "read", f"{query_count:,} of {mesh.queries:,} queries, {answers} in {records}"
    if not mesh.noise.exact:
        yield "noise", "simulated, as the mesh file says: nothing is protected"
    for message in found[:_SHOWN]:
        yield message.kind, f"query {message.query:,} of {message.party}: {message.detail}"
    if len(found) > _SHOWN:
        yield "more", f"{len(found) - _SHOWN:,} findings: --json has them all"
    for (topic, reason), count in sorted(said.undecodable.items()):
        yield "undecodable", f"{counted(count, 'record')} of {topic}: {reason}"
    wrong = len(found) + said.undecodable.total()
    yield "found", counted(wrong, "thing") + " wrong" if wrong else "nothing wrong"


def responses_json(mesh: CollaborationSettings, found: Sequence[Wrong], said: Said) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "mesh": mesh.name,
        "run": mesh.run,
        "clean": not found and not said.undecodable,
        "queries": len({message.number for message in said.queries}),
        "answers": said.answers,
        "findings": [message._asdict() for message in found],
        "undecodable": [
            {"topic": topic, "reason": reason, "count": count}
            for (topic, reason), count in sorted(said.undecodable.items())
        ],
    }
