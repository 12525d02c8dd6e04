"""How a topic that is there differs from the one that is wanted."""

from collections.abc import Callable

from streams.kafka.admin import Topic
from streams.kafka.topic_specs import TopicSpec


def differences(spec: TopicSpec, topic: Topic, *, by_time: bool) -> list[str]:
    """Return how a topic that is there differs from what is wanted; more room than wanted is no difference.

    Of the party's own stream only what would change the data: how many partitions, and compaction.
    """
    found = []
    if topic.partitions != 1 and not (spec.owned and by_time):
        why = "slots by count need one" if spec.owned else "must have one"
        found.append(f"has {topic.partitions} partitions: {why}")
    for key, wanted in spec.configs.items():
        right, words = _RULES[key]
        if not (spec.owned and key != "cleanup.policy") and not right(topic.configs[key], wanted):
            found.append(f"{key} is {topic.configs[key]}: must be {words.format(wanted)}")
    return found


def _at_least(found: str, wanted: str) -> bool:
    """Compare limits, where -1 is none."""
    return found == "-1" or (wanted != "-1" and int(found) >= int(wanted))


_RULES: dict[str, tuple[Callable[[str, str], bool], str]] = {
    "cleanup.policy": (str.__eq__, "{}"),
    "retention.ms": (_at_least, "{} (none)"),
    "retention.bytes": (_at_least, "at least {}, or -1"),
    "segment.bytes": (lambda found, wanted: int(found) <= int(wanted), "at most {}"),
    "max.message.bytes": (_at_least, "at least {}"),
}
