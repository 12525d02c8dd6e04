"""The parties: the nodes that each runs, and their user names on a broker. Public, like the nodes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from streams.mesh.errors import one_of
from streams.mesh.settings.base import Name, Settings, refusal

LONGEST_USER = 255
RESERVED = {
    "ANONYMOUS": "whoever has not logged in",
    "admin": "a broker's administrator",
    "controller": "a broker's controller",
}
"""User names that no party may have: the development broker's own, and Kafka's for one without a login."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_COMMON_NAME = re.compile(r"(?:^|,)\s*CN=([^,+]*)", re.IGNORECASE)
_SUBJECT = re.compile(r"[A-Za-z0-9.]+=[^\x00-\x1f\x7f]*[^\x00-\x20\x7f]")


def is_subject(user: str) -> bool:
    """Return whether the user is a certificate's subject, like `CN=bank-a,O=Bank A`."""
    return _SUBJECT.fullmatch(user) is not None


def _user(text: str) -> str:
    if len(text) > LONGEST_USER or not (_PLAIN.fullmatch(text) or is_subject(text)):
        allowed = "must be made of letters, digits and . _ @ -, or be a certificate's subject like CN=bank-a"
        raise refusal(f"{allowed}, of at most {LONGEST_USER} characters")
    return text


class PartySettings(Settings):
    """A party: the nodes that it runs, and the user that they share."""

    nodes: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)]
    """The nodes that the party runs."""
    user: Annotated[str, AfterValidator(_user)] | None = None
    """The one user of all its nodes, which then trust one another; with certificates (security: tls) its
    certificate's subject. Not given: each node is a user of its own, named like the node."""


@dataclass(frozen=True, slots=True)
class Party:
    """A party: its nodes, and each node's user on the brokers."""

    name: str
    users: Mapping[str, str]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the party runs."""
        return tuple(self.users)


def parties(nodes: Iterable[str], named: Mapping[str, PartySettings]) -> tuple[Party, ...]:
    """Return all parties: those in `named`, and for each node that none of them runs a party of its name."""
    parties = [
        Party(name, {node: named_party.user or node for node in named_party.nodes})
        for name, named_party in named.items()
    ]
    assigned = {node for party in parties for node in party.nodes}
    return (*parties, *(Party(node, {node: node}) for node in nodes if node not in assigned))


def scheduler_user(mesh: str) -> str:
    """Return the schedulers' user on the mesh broker."""
    return f"{mesh}-scheduler"


def auditor_user(mesh: str) -> str:
    """Return the auditor's user on the mesh broker. It may read all topics and write none."""
    return f"{mesh}-auditor"


def feeder_user(node: str) -> str:
    """Return the user on the party's own broker that feeds a node's records."""
    return f"{node}-feeder"


def score_user(node: str) -> str:
    """Return the user on the party's own broker that scores messages with a node's decisions."""
    return f"{node}.score"


def check_parties(mesh: str, nodes: Iterable[str], named: Mapping[str, PartySettings]) -> None:
    """Refuse parties that do not fit the nodes, and a user name that two holders would share."""
    node_names = list(nodes)
    _check_nodes(node_names, named)
    holders: dict[str, tuple[str, str]] = {}
    for user, holder, path in _users(mesh, node_names, named):
        _check_user(user, holder, path)
        name = user.removeprefix("CN=")  # a broker that uses certificates gives user a the name CN=a
        first_user, its_holder = holders.setdefault(name, (user, holder))
        if its_holder != holder:
            hint = "" if first_user == user else f" (with certificates {first_user} is the same)"
            raise refusal(f"{user} is the user of {its_holder} and of {holder}{hint}: must differ", *path)


def _check_user(user: str, holder: str, path: tuple[str, ...]) -> None:
    """Refuse a user whose name is reserved. Of a certificate's subject its common name is checked too."""
    subject = _COMMON_NAME.search(user) if is_subject(user) else None
    name = user if subject is None else subject[1].strip()
    if name in RESERVED:
        raise refusal(f"{user} is the user of {holder}, and of {RESERVED[name]}: must be another", *path)


def _check_nodes(nodes: list[str], named: Mapping[str, PartySettings]) -> None:
    owner: dict[str, str] = {}
    for name, party in named.items():
        if name.endswith("-"):
            raise refusal("a party's name must end with a letter or digit", "parties", name)
        for node in party.nodes:
            if node not in nodes:
                raise refusal(
                    f"{node} is no node of the mesh: {one_of(nodes, node)}", "parties", name, "nodes"
                )
            if node in owner:
                repetition = "twice" if owner[node] == name else f"also by party {owner[node]}"
                raise refusal(f"{node} is named {repetition}: every node once", "parties", name, "nodes")
            owner[node] = name
    for name in named:
        if name in nodes and name not in owner:
            words = "is also the name of a node of no party, which is one by itself: must be another"
            raise refusal(f"{name} {words}", "parties", name)


def _users(
    mesh: str, nodes: list[str], named: Mapping[str, PartySettings]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (user, holder in words, path of the key that sets the user's name) for each user."""
    yield scheduler_user(mesh), "the scheduler", ("name",)
    yield auditor_user(mesh), "the auditor", ("name",)
    for node in nodes:
        yield feeder_user(node), f"the feeder of {node}", ("nodes", node)
        yield score_user(node), f"the scorer of {node}", ("nodes", node)
    for party in parties(nodes, named):
        settings = named.get(party.name)
        if settings is not None and settings.user is not None:
            yield settings.user, f"party {party.name}", ("parties", party.name, "user")
        else:
            yield from ((node, f"node {node}", ("nodes", node)) for node in party.nodes)
