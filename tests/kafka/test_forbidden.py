"""What nobody may do on brokers whose users `provision --users` made, each tried on a real one.

A topic is named as in `{a}`'s mesh: `edge.a.b` is that of the releases from a to b, `data.b` a party's own.
"""

import pytest

from streams.bus.bus import Denied
from streams.bus.logs import reach
from streams.bus.provision import provision
from streams.codec.topics import DATA_KINDS
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.acting import Actor
from tests.support.brokers.topics import until
from tests.support.brokers.users import Scored, Users, add_user, secure_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NODE = """
    read data.b, read spends.b, read decisions.b, read predictions.b, read data-deadletter.b
    read edge.b.c, read edge.c.b, read scheduler, read deadletter.a, read deadletter.b
    write edge.b.a, write edge.b.c, write edge.c.b, write progress.b, write topology, write scheduler
    write deadletter.b, write data.a, write data.b, write spends.b, write decisions.b, write predictions.b
    create other, create edge.a.other, create edge.b.other
    delete edge.a.b, delete edge.b.a, delete topology, delete data.a
    empty edge.a.b, empty topology, widen edge.a.b, widen progress.a
    shorten edge.a.b, shorten topology, shorten data.a, configs topology, broker, elect topology
    rules, allow topology, allow edge.b.a, forbid topology, users, password b, limit b
    read score.input, read score.output, write score.input, write score.output, write score.letters
    commit score.group, transact score.ids
    group group.b, offsets group.b, commit group.b, end_group group.b, end_group group.a
    transact a, transact b
    write labels, delete labels, empty labels, shorten labels, widen labels
"""
SCHEDULER = """
    write edge.a.b, write progress.a, write deadletter.a, read edge.a.b, read deadletter.a, read data.a
    read spends.a, create other, delete topology, empty topology, shorten topology, rules, allow progress.a
    transact a, commit group.a, read labels
"""
AUDITOR = """
    write topology, write scheduler, write progress.a, write edge.a.b, write deadletter.a, write data.a
    read data.a, read labels, read spends.a, read decisions.a, create other, delete topology, empty edge.a.b
    shorten edge.a.b, rules, allow topology, users, commit group.a, transact a
"""
FEEDER = """
    write data.b, write spends.a, write decisions.a, write edge.a.b, write topology, write progress.a
    read labels, read spends.a, read decisions.a, read edge.b.a, shorten data.a, delete data.a
    commit group.a, rules
"""
SCORER = """
    read labels, read data.a, read data-deadletter.a, read predictions.a, read decisions.b, read spends.b
    read score.output, read score.letters, read edge.b.a, read topology, read progress.a
    write score.input, write decisions.a, write spends.a, write data.a, write predictions.a
    write data-deadletter.a, write edge.a.b, write topology, write progress.a
    configs score.input, widen score.output, delete score.input, empty score.output, shorten score.output
    create other, rules, allow score.output, users, commit group.a, end_group score.group
    transact a, transact other
"""
STRANGER = """
    read topology, read data.a, write topology, write progress.a, write edge.a.b, create other
    read score.input, write score.output, transact score.ids, read labels
    configs topology, rules, users, group group.a, transact a
"""
FORBIDDEN = [
    (user, *[*deed.split(), ""][:2])
    for user, deeds in (
        ("a", NODE),
        ("{mesh}-scheduler", SCHEDULER),
        ("{mesh}-auditor", AUDITOR),
        ("a-feeder", FEEDER),
        ("a.score", SCORER),
        ("stranger", STRANGER),
    )
    for deed in deeds.replace("\n", ",").split(",")
    if deed.strip()
]
ALLOWED = [
    ("a", "read", "topology"),
    ("a", "read", "edge.b.a"),
    ("a", "read", "progress.b"),
    ("a", "read", "data.a"),
    ("a", "write", "edge.a.b"),
    ("a", "write", "progress.a"),
    ("a", "write", "decisions.a"),
    ("a", "offsets", "group.a"),
    ("a", "commit", "group.a"),
    ("a", "read", "labels"),
    ("a", "configs", "labels"),
    ("{mesh}-scheduler", "write", "topology"),
    ("{mesh}-scheduler", "read", "progress.b"),
    ("{mesh}-auditor", "read", "edge.b.c"),
    ("{mesh}-auditor", "read", "deadletter.b"),
    ("a-feeder", "write", "data.a"),
    ("a-feeder", "configs", "data.a"),
    ("a.score", "read", "score.input"),
    ("a.score", "read", "decisions.a"),
    ("a.score", "read", "spends.a"),
    ("a.score", "write", "score.output"),
    ("a.score", "write", "score.letters"),
    ("a.score", "offsets", "score.group"),
    ("a.score", "commit", "score.group"),
    ("a.score", "transact", "score.ids"),
    ("admin", "rules", ""),
    ("admin", "users", ""),
    ("admin", "elect", "topology"),
    ("admin", "shorten", "topology"),
    ("admin", "create", "edge.b.other"),
    ("admin", "limit", "stranger"),
    ("admin", "transact", "a"),
]
"""The same deeds by who may: that a refusal is one, and no mistake in the deed."""


class Place:
    """A mesh on the broker: its users, and its names."""

    def __init__(self, users, scored):
        self.users, self._actors, self.mesh, self._scored = users, {}, users.file.mesh, scored
        self._nodes = dict(zip("abc", self.mesh.nodes, strict=True))

    def name(self, short):
        """Return the name on the broker of a user, topic or group: `edge.a.b`, `a-feeder`."""
        if short == "labels":
            return self._scored.labels
        if short.startswith("score."):
            thing, group = short.removeprefix("score."), self._scored.group(self.users.file)
            known_groups = {"group": group, "ids": f"{group}.of-a-process"}
            return known_groups.get(thing) or getattr(self._scored, thing)
        kind, *rest = short.format(mesh=self.mesh.name).split(".")
        known = [self._nodes.get(part, part) for part in rest]
        if kind in {"edge", "progress", "deadletter", "topology", "scheduler"}:
            return ".".join([self.mesh.name, self.mesh.run, kind, *known])
        if kind == "group":
            return ".".join([self.mesh.name, self.mesh.run, *known])
        if kind in DATA_KINDS:
            first = ["spends", "data"] if kind == "spends" else [kind]
            return ".".join([*first, self.mesh.name, *known])
        node, dash, role = kind.partition("-")
        return ".".join([self._nodes[node] + dash + role if node in self._nodes else kind, *known])

    def actor(self, user):
        """Return a user with its clients."""
        if user not in self._actors:
            self._actors[user] = Actor(self.users.settings(self.name(user)))
        return self._actors[user]

    def close(self):
        """Disconnect all."""
        for actor in self._actors.values():
            actor.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory, secure_broker):
    with pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("forbidden")
        scored = Scored()
        path = secure_mesh_file(folder, secure_broker, own={"a": scored.own}, sources=scored.sources)
        users = Users(path, secure_broker, environment)
        provision(users.file)
        users.provision()
        (users.folder / "stranger").write_text("known, and may nothing")
        add_user(users.client("admin").admin, "stranger", users.password("stranger"))
        scored.create(users.client("admin").admin)
        made = Place(users, scored)
        until(lambda: enters(users.settings("stranger")))
        until(lambda: made.actor("a").read(made.name("edge.b.a")) is None)
        yield made
        made.close()


def enters(settings):
    """Whether the user may log in."""
    try:
        reach(settings)
    except Denied:
        return False
    return True


def test_there_are_enough_of_them():
    assert len(FORBIDDEN) == len(set(FORBIDDEN)) >= 40


@pytest.mark.parametrize(("user", "deed", "thing"), FORBIDDEN)
def test_it_is_denied(place, user, deed, thing):
    refusal = getattr(place.actor(user), deed)(place.name(thing))
    assert str(refusal).endswith("_AUTHORIZATION_FAILED"), refusal


@pytest.mark.parametrize(("user", "deed", "thing"), ALLOWED)
def test_it_is_allowed(place, user, deed, thing):
    assert getattr(place.actor(user), deed)(place.name(thing)) is None


@pytest.mark.parametrize(
    ("user", "password"), [("nobody", "x"), ("{mesh}-auditor", "guessed"), ("admin", "a")]
)
def test_who_is_unknown_or_guesses_does_not_enter(place, user, password):
    address = place.users.broker.address
    name = user.format(mesh=place.mesh.name)
    assert not enters(BrokerSettings(servers=address, username=name, password=password))
