"""The topics that a collaboration needs on each broker, and their settings.

Queries and responses are few and public, so a log keeps all of a run: who reads it later sees every one.
"""

from streams.bus.topic_specs import (
    OVERHEAD,
    RELEASES,
    ROOM,
    TopicSpec,
    letters_spec,
    records_spec,
    shared_spec,
    spends_spec,
)
from streams.codec import heartbeat
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.wire import Wire

BEATS = 128
"""The heartbeats that a log keeps at least."""


def collaboration_specs(wire: Wire) -> tuple[TopicSpec, ...]:
    """Return the topics of the broker that all share."""
    settings, topics = wire.whole.settings, wire.topics
    longest = max(message.length for message in (wire.queries, *wire.responses.values())) + wire.signature
    beat, query_records = heartbeat.LONGEST + wire.signature, RELEASES * settings.queries
    specs = [shared_spec(topics.query, "query", query_records + RELEASES, longest, longest)]
    specs += [
        shared_spec(topics.response(owner), "response", query_records, longest, longest)
        for owner in settings.owners
    ]
    limit = longest + ROOM + OVERHEAD
    for name in (settings.learner, *settings.owners):
        specs.append(shared_spec(topics.progress(name), "progress", BEATS, beat, beat))
        specs.append(letters_spec(topics.dead_letters(name), "deadletter", limit, shared=True))
    return tuple(specs)


def owner_specs(owner: str) -> tuple[TopicSpec, ...]:
    """Return the topics of an owner's own broker, for a set of records that is a topic."""
    return (records_spec(owner), spends_spec(owner))


def topics_of(file: CollaborationFile, name: str | None) -> tuple[TopicSpec, ...]:
    """Return the topics of the shared broker (None), or of an owner's own."""
    return collaboration_specs(Wire(file.resolved)) if name is None else owner_specs(name)
