"""The topics that a collaboration needs on each broker, and their settings.

Queries and responses are few and public, so a log keeps all of a run: who reads it later sees every one.
"""

from streams.bus.topic_specs import (
    LEAST_LIMIT,
    MIB,
    OVERHEAD,
    RELEASES,
    TopicSpec,
    letters_spec,
    records_spec,
)
from streams.codec import heartbeat
from streams.mesh.wire import Wire

BEATS = 128
"""The heartbeats that a log keeps at least."""


def collaboration_specs(wire: Wire) -> tuple[TopicSpec, ...]:
    """Return the topics of the broker that all share."""
    settings, topics = wire.whole.settings, wire.topics
    longest = max(one.length for one in (wire.queries, *wire.responses.values()))
    limit = max(LEAST_LIMIT, max(longest, heartbeat.LONGEST) + OVERHEAD)

    def spec(name: str, kind: str, records: int, size: int) -> TopicSpec:
        return TopicSpec(name, kind, max(records * (size + OVERHEAD), MIB), limit)

    specs = [spec(topics.query, "query", RELEASES * (settings.queries + 1), longest)]
    specs += [
        spec(topics.response(owner), "response", RELEASES * settings.queries, longest)
        for owner in settings.owners
    ]
    for name in (settings.learner, *settings.owners):
        specs.append(spec(topics.progress(name), "progress", BEATS, heartbeat.LONGEST))
        specs.append(letters_spec(topics.dead_letters(name), "deadletter", limit))
    return tuple(specs)


def owner_specs(owner: str) -> tuple[TopicSpec, ...]:
    """Return the topics of an owner's own broker, for a set of records that is a topic."""
    return (records_spec(owner),)
