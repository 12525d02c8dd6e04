"""Topics and messages: names from `streams.codec.topics`, layouts from the codec's own docstrings."""

import inspect
from collections.abc import Callable
from types import FunctionType

from docs.regions.access import placed
from streams.codec import encode_dead_letter, encode_heartbeat, encode_plan, encode_plans, encode_release
from streams.codec.envelope import VERSION, Reason, SignedEnvelope
from streams.codec.topics import DataTopics, MeshTopics
from streams.collaboration.wire import encode_query, encode_response

_REASONS = {
    Reason.TOO_LONG: "The message is longer than any of its kind.",
    Reason.VERSION: f"The first byte is not {VERSION}, the version that this program speaks.",
    Reason.KIND: "The second byte names another kind of message.",
    Reason.LENGTH: "The message has fewer or more bytes than its header says.",
    Reason.RUN: "The message belongs to another run.",
    Reason.SOURCE: "The message names another node than the topic does.",
    Reason.DIGEST: "The sender has other shared settings.",
    Reason.FLAGS: "A flag is unknown, or a wish stands without its flag.",
    Reason.NOT_FINITE: "A number is NaN or infinite.",
    Reason.OUT_OF_BOUND: "The release is longer than any that the settings allow.",
    Reason.MALFORMED: "A round, a name or a count is impossible.",
    Reason.SECOND_VALUE: "The source has sent two values for one round.",
    Reason.UNREADABLE: "The record is empty, or no client can read it, as one that is compressed and broken.",
    Reason.SIGNATURE: "The message must be signed and is not, or not by the one who must, or wrongly.",
    Reason.AHEAD: "A plan lies far beyond the slot, by time, in which the broker took its record.",
}


def topics() -> str:
    """Return a line for each kind of topic: on which broker it is, its name, what it holds."""
    lines = ["| broker | topic | holds |", "|---|---|---|"]
    for broker, names in (("mesh", MeshTopics("zmesh", "zrun")), ("data", DataTopics("zmesh", "znode"))):
        for key, what in vars(type(names)).items():
            if (
                key.startswith("_")
                or key in {"group", "all"}
                or not isinstance(what, property | FunctionType)
            ):
                continue
            found = getattr(names, key)
            name = found if isinstance(found, str) else found(*_ids(found))
            lines.append(f"| {broker} | `{name}` | {_said(what)} |")
    return placed("\n".join(lines))


def _ids(method: Callable[..., str]) -> list[str]:
    return [f"z{parameter}" for parameter in inspect.signature(method).parameters]


def messages() -> str:
    """Return the layout of every message."""
    kinds = {
        "Release": encode_release,
        "Record of plans": encode_plans,
        "Plan": encode_plan,
        "Heartbeat": encode_heartbeat,
        "Signed message": SignedEnvelope,
        "Query": encode_query,
        "Response": encode_response,
        "Dead letter": encode_dead_letter,
    }
    return "\n\n".join(f"### {name}\n\n```text\n{_layout(part)}\n```" for name, part in kinds.items())


def reasons() -> str:
    """Return a line for each reason to refuse a message."""
    lines = ["| `reason` | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{reason.value}` | {_REASONS[reason]} |" for reason in Reason)])


def _layout(part: object) -> str:
    """Return the last paragraph of a docstring of the codec: what bytes follow each other."""
    return _doc(part).split("\n\n")[-1]


def _said(what: object) -> str:
    text = (_doc(what).splitlines() or [""])[0]
    said = text.removeprefix("Return the topic of ").removeprefix("Return ").replace("`", "")
    return said[:1].upper() + said[1:]


def _doc(what: object) -> str:
    return inspect.getdoc(what) or ""
