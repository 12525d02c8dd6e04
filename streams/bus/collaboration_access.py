"""What each process of a collaboration reads and writes, and what each user may, and no more.

The learner writes queries and reads responses; an owner reads queries and writes its own responses.
"""

from collections.abc import Iterable

from streams.bus.access import Access, Rule, User, rules
from streams.bus.collaboration_quotas import auditor_quota, learner_quota, owner_quota
from streams.codec.topics import DataTopics, MeshTopics, all_of
from streams.mesh.settings.parties import auditor_user, feeder_user
from streams.mesh.wire import Wire


def learner(topics: MeshTopics, name: str, owners: Iterable[str]) -> Access:
    """Return the learner's rights on the broker that all share; it also reads its own messages."""
    own_topics = (topics.query, topics.progress(name))
    return Access((*own_topics, *map(topics.response, owners)), (*own_topics, topics.dead_letters(name)))


def owner_on_mesh(topics: MeshTopics, name: str) -> Access:
    """Return an owner's rights on the broker that all share; it also reads its own messages."""
    own_topics = (topics.response(name), topics.progress(name))
    return Access((topics.query, *own_topics), (*own_topics, topics.dead_letters(name)))


def owner_on_data(name: str) -> Access:
    """Return an owner's rights on its own broker, where its set is a topic: it writes nothing there."""
    return Access((DataTopics(name).records,), ())


def owner_feeder(name: str) -> Access:
    """Return the rights of what feeds a set to its topic; it continues after the stored records."""
    records = (DataTopics(name).records,)
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


def owner_data_users(owners: Iterable[str]) -> tuple[User, ...]:
    """Return the users of an owner's own broker: the owner's, and its feeder's. None has a quota."""
    users = []
    for name in owners:
        users.append(User(name, (f"owner {name}",), rules([owner_on_data(name)]), None))
        users.append(User(feeder_user(name), (f"feeder of {name}",), rules([owner_feeder(name)]), None))
    return tuple(users)
