"""Parties and their users: who runs which nodes, and whom a broker knows them as."""

import pytest

from streams.mesh.file import MeshFileError
from tests.support.meshes.files import changed, loaded

BANKS = {"bank-a": {"nodes": ["a", "b"], "user": "bank-a"}, "bank-c": {"nodes": ["c"]}}


def mesh(tmp_path, **shared):
    return loaded(tmp_path, changed(**shared)).mesh


def test_without_parties_each_node_is_one_and_its_own_user(tmp_path):
    found = mesh(tmp_path)
    assert [(party.name, party.nodes) for party in found.all_parties] == [(name, (name,)) for name in "abcd"]
    assert found.users == {name: name for name in "abcd"}


def test_a_party_s_user_is_that_of_all_its_nodes_and_the_others_are_their_own(tmp_path):
    found = mesh(tmp_path, parties=BANKS)
    assert [(party.name, party.nodes) for party in found.all_parties] == [
        ("bank-a", ("a", "b")),
        ("bank-c", ("c",)),
        ("d", ("d",)),
    ]
    assert found.users == {"a": "bank-a", "b": "bank-a", "c": "c", "d": "d"}


def test_parties_change_no_run(tmp_path):
    assert mesh(tmp_path, parties=BANKS).digest() == mesh(tmp_path).digest()
    assert "parties" not in mesh(tmp_path, parties=BANKS).agreed


@pytest.mark.parametrize(
    "user", ["bank-a", "Bank_A@example.org", "CN=bank-a", "CN=a,OU=Süd, West,O=A/B,C=DE"]
)
def test_a_user_is_a_name_or_a_certificate_s_subject(tmp_path, user):
    assert mesh(tmp_path, parties={"x": {"nodes": ["a"], "user": user}}).users["a"] == user


@pytest.mark.parametrize(
    "user", ["", "a b", "../a", ".", "a/b", "a,b", "CN=a\nb", "CN=", "-a", "a" * 256, "ä"]
)
def test_a_user_that_no_broker_or_file_could_be_given_is_refused(tmp_path, user):
    with pytest.raises(MeshFileError, match=r"mesh\.parties\.x\.user: .*must be made of letters, digits and"):
        mesh(tmp_path, parties={"x": {"nodes": ["a"], "user": user}})


A, B = {"nodes": ["a"]}, {"nodes": ["b"]}


@pytest.mark.parametrize(
    ("shared", "line"),
    [
        ({"parties": {"x": {"nodes": []}}}, "mesh.parties.x.nodes: []: must not be empty"),
        ({"parties": {"x": {}}}, "mesh.parties.x.nodes: missing: must be given"),
        (
            {"parties": {"x": A | {"users": "u"}}},
            "mesh.parties.x.users: ...: unknown key: must be one of nodes, user",
        ),
        ({"parties": {"Bank A": A}}, 'mesh.parties: "Bank A": must be made of a-z, 0-9 and -'),
        ({"parties": {"-x": A}}, 'mesh.parties: "-x": must be made of a-z, 0-9 and -, and not begin with -'),
        ({"parties": {"x-": A}}, "a party's name must end with a letter or digit"),
        (
            {"parties": {"x": A | {"user": "ANONYMOUS"}}},
            "user: ...: ANONYMOUS is the user of party x, and of whoever has not logged in: must be another",
        ),
        (
            {"parties": {"x": A | {"user": "O=A,CN=admin,C=DE"}}},
            "user: ...: O=A,CN=admin,C=DE is the user of party x, and of a broker's administrator: must be",
        ),
        (
            {"nodes": ["a", "controller"]},
            "mesh.nodes.controller: controller is the user of node controller, and of a broker's controller",
        ),
        ({"parties": {"x": {"nodes": ["e"]}}}, "e is no node of the mesh: must be one of a, b, c, d"),
        ({"parties": {"x": {"nodes": ["a", "a"]}}}, "a is named twice: every node once"),
        (
            {"parties": {"x": A, "y": A}},
            "mesh.parties.y.nodes: ...: a is named also by party x: every node o",
        ),
        ({"parties": {"b": A}}, "mesh.parties.b: ...: b is also the name of a node of no party"),
        (
            {"parties": {"x": A | {"user": "u"}, "y": B | {"user": "u"}}},
            'mesh.parties.y.user: "u": u is the user of party x and of party y: must differ',
        ),
        (
            {"parties": {"x": A | {"user": "CN=b"}}},
            "mesh.nodes.b: b is the user of party x and of node b (with certificates CN=b is the same): must",
        ),
        (
            {"parties": {"x": A | {"user": "u"}, "y": B | {"user": "CN=u"}}},
            'user: "CN=u": CN=u is the user of party x and of party y (with certificates u is the same)',
        ),
        (
            {"parties": {"x": A | {"user": "b"}}},
            "mesh.nodes.b: b is the user of party x and of node b: must differ",
        ),
        (
            {"parties": {"x": A | {"user": "tracking-scheduler"}}},
            "tracking-scheduler is the user of the scheduler and of party x: must differ",
        ),
        (
            {"nodes": ["a", "tracking-auditor"]},
            "tracking-auditor is the user of the auditor and of node tracking-auditor: must differ",
        ),
        (
            {"nodes": ["a", "b"], "parties": {"p": {"nodes": ["b"], "user": "a.score"}}},
            "a.score is the user of the scorer of a and of party p: must differ",
        ),
        (
            {"nodes": ["a", "a-feeder"]},
            "a-feeder is the user of the feeder of a and of node a-feeder: must differ",
        ),
    ],
)
def test_what_collides_or_belongs_to_nobody_is_one_line(tmp_path, shared, line):
    tree = changed(**shared)
    tree["nodes"] = {}
    with pytest.raises(MeshFileError) as caught:
        loaded(tmp_path, tree)
    (found,) = caught.value.lines
    for part in line.split("..."):
        assert part in found, found
