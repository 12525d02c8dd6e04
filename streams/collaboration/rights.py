"""The topics that each process of a collaboration reads and writes, and the rights of each user.

The learner writes queries and reads responses. An owner reads queries and writes its own responses.
"""

from collections.abc import Iterable

from streams.bus.rights import (
    FASTEST,
    IDLE_REQUESTS,
    NETWORK,
    Access,
    Load,
    Quota,
    Rule,
    User,
    limited,
    rules,
    with_overhead,
)
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
from streams.codec.topics import DataTopics, MeshTopics, all_of
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Wire
from streams.mesh.settings.parties import auditor_user, feeder_user

# The quotas of a collaboration's users on the shared broker, by the rules of `quotas`.
#
# The steady rate is `FASTEST` queries a second, or as many as fit through a network of `NETWORK` bytes a
# second. Each query counts with a response of every owner. Heartbeats are added.

BEATS_A_SECOND = 1.0
"""Heartbeats that each process sends in a second."""


def learner_quota(wire: Wire) -> Quota:
    """Return the quota of the learner, which sends queries and reads every response."""
    return _quota(wire, learner_load(wire), heard=1)


def owner_quota(wire: Wire, owner: str) -> Quota:
    """Return the quota of an owner, which reads the queries and answers them."""
    return _quota(wire, owner_load(wire, owner), heard=1)


def auditor_quota(wire: Wire) -> Quota:
    """Return the quota of the auditor, which reads all topics."""
    query_bytes, response_bytes = _sizes(wire, wire.responses)
    load = Load(0, query_bytes + response_bytes, 1 + len(wire.responses))
    return _quota(wire, load, heard=1 + len(wire.responses), sent=0)


def learner_load(wire: Wire) -> Load:
    """Return the learner's load per query."""
    query_bytes, response_bytes = _sizes(wire, wire.responses)
    return Load(query_bytes, response_bytes, 1 + len(wire.responses))


def owner_load(wire: Wire, owner: str) -> Load:
    """Return an owner's load per query."""
    query_bytes, response_bytes = _sizes(wire, (owner,))
    return Load(response_bytes, query_bytes, 2)


def queries_per_second(wire: Wire) -> float:
    """Return the steady rate that quotas are computed from."""
    load = learner_load(wire)  # what an owner sends or receives is part of it
    return min(FASTEST, max(1.0, NETWORK / max(load.sent, load.received)))


def _quota(wire: Wire, load: Load, heard: int, sent: int = 1) -> Quota:
    """Return a quota for this load per query, with the heartbeats of so many processes."""
    beat = with_overhead(heartbeat.LONGEST + wire.signature)
    second = Load().plus(load, queries_per_second(wire))
    second = second.plus(Load(sent * beat, heard * beat, sent + heard), BEATS_A_SECOND)
    return limited(second.plus(Load(requests=IDLE_REQUESTS)))


def _sizes(wire: Wire, owners: Iterable[str]) -> tuple[int, int]:
    """Return the bytes of a query, and of a response of each of these owners."""
    signed = wire.signature
    response_bytes = sum(with_overhead(wire.responses[owner].length + signed) for owner in owners)
    return with_overhead(wire.queries.length + signed), response_bytes


def learner(topics: MeshTopics, name: str, owners: Iterable[str]) -> Access:
    """Return the learner's rights on the broker that all share; it also reads its own messages."""
    own_topics = (topics.query, topics.progress(name))
    return Access((*own_topics, *map(topics.response, owners)), (*own_topics, topics.dead_letters(name)))


def owner_on_mesh(topics: MeshTopics, name: str) -> Access:
    """Return an owner's rights on the broker that all share; it also reads its own messages."""
    own_topics = (topics.response(name), topics.progress(name))
    return Access((topics.query, *own_topics), (*own_topics, topics.dead_letters(name)))


def owner_on_data(topics: DataTopics) -> Access:
    """Return an owner's rights on its own broker: on the topic of its set, and on the record of
    its spending.
    """
    return Access((topics.records, topics.spends), (topics.spends,))


def owner_feeder(topics: DataTopics) -> Access:
    """Return the rights of a process that feeds a set to its topic. It continues after the stored records."""
    records = (topics.records,)
    return Access(records, records, configs=records)


def collaboration_users(wire: Wire) -> tuple[User, ...]:
    """Return the users of the broker that all share: the learner's, each owner's, and the auditor's."""
    settings, topics = wire.whole.settings, wire.topics
    asking = learner(topics, settings.learner, settings.owners)
    read_all = Rule("topic", all_of(topics), "prefix", ("Read",))
    return (
        User(settings.learner, ("learner",), rules([asking]), learner_quota(wire)),
        *(
            User(name, (f"owner {name}",), rules([owner_on_mesh(topics, name)]), owner_quota(wire, name))
            for name in settings.owners
        ),
        User(auditor_user(settings.name), ("auditor",), (read_all,), auditor_quota(wire)),
    )


def owner_data_users(mesh: str, owners: Iterable[str]) -> tuple[User, ...]:
    """Return the users of an owner's own broker: the owner's, and its feeder's. None has a quota."""
    users = []
    for name in owners:
        topics = DataTopics(mesh, name)
        users.append(User(name, (f"owner {name}",), rules([owner_on_data(topics)]), None))
        users.append(User(feeder_user(name), (f"feeder of {name}",), rules([owner_feeder(topics)]), None))
    return tuple(users)


def shared_users_of(file: CollaborationFile) -> tuple[User, ...]:
    """Return the users of the broker that all parties of the file share."""
    return collaboration_users(Wire(file.resolved))


def data_users_of(file: CollaborationFile, owners: Iterable[str]) -> tuple[User, ...]:
    """Return the users of an owner's own broker."""
    return owner_data_users(file.mesh.name, owners)


# The topics that a collaboration needs on each broker, and their settings.
#
# Queries and responses are few and public, so a log keeps all of a run, and later readers see every one.

HEARTBEATS = 128
"""The least number of heartbeats that a log keeps."""


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
        specs.append(shared_spec(topics.progress(name), "progress", HEARTBEATS, beat, beat))
        specs.append(letters_spec(topics.dead_letters(name), "deadletter", limit, shared=True))
    return tuple(specs)


def owner_specs(topics: DataTopics) -> tuple[TopicSpec, ...]:
    """Return the topics of an owner's own broker, for a set of records that is a topic."""
    return (records_spec(topics), spends_spec(topics))


def topics_of(file: CollaborationFile, name: str | None) -> tuple[TopicSpec, ...]:
    """Return the topics of the shared broker (None), or of an owner's own."""
    if name is None:
        return collaboration_specs(Wire(file.resolved))
    return owner_specs(file.data_topics(name))
