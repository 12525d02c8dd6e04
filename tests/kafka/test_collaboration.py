"""A learner and three owners on a broker: the run of one process, bit for bit, whoever is killed."""

import json
import uuid

import numpy as np
import pytest
import yaml

from nodes.collaboration.messages import Query
from streams.bus.kafka import KafkaBus
from streams.bus.rights import Access
from streams.codec import decode_dead_letter
from streams.collaboration.journals import LearnerJournal, OwnerJournal
from streams.collaboration.rights import collaboration_users, learner, owner_on_mesh
from streams.collaboration.wire import encode_query
from streams.mesh.settings.keys import public_of
from streams.state.folder import JournalError
from tests.support.brokers.topics import PATIENCE, until
from tests.support.brokers.users import Users, reads
from tests.support.collaborations.files import OWNERS, SIZES, collaboration_file
from tests.support.collaborations.on_broker import LiveCollaboration, in_memory, same_as_in_memory
from tests.support.meshes.keys import private, write_private_key
from tests.support.processes.mesh import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("weights", ["records", "noise"])
def test_a_star_on_a_broker_is_the_run_in_memory(tmp_path, broker, weights):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address, weights=weights)) as star:
        star.begin()
        star.finish()
        expected = same_as_in_memory(star)
        with LearnerJournal.read(tmp_path / "state" / "analyst.journal") as journal:
            last = journal.records()[-1]
        assert last.number == 13
        assert (last.answers[0].weight == 60 / 125) is (weights == "records")
        assert last.average.tobytes() == expected[13].average.tobytes()
        for owner in OWNERS:
            with OwnerJournal.read(tmp_path / "state" / f"{owner}.journal") as journal:
                assert [one.charged for one in journal.records] == list(range(1, 13))
                assert {one.set.records for one in journal.records} == {SIZES[owner]}
        audit = star.start("audit", "audit", "releases", star.path)
        assert audit.ends() == 0
        assert "12 of 12 queries, 36 answers in 36 records" in audit.log
        assert "nothing wrong" in audit.log


def signed_collaboration(folder, broker):
    """Write a mesh file whose parties all sign, each with a key of its own; return its path."""
    path = collaboration_file(folder, broker, response_timeout=60, queries=6)
    tree = yaml.safe_load(path.read_text())
    mesh = tree["mesh"] | {"signatures": "required"}
    public = {name: public_of(private(name)) for name in ("analyst", *OWNERS)}
    for name in public:
        write_private_key(folder / f"{name}.key", name)
    mesh["learner_key"] = public["analyst"]
    mesh["owners"] = {name: terms | {"key": public[name]} for name, terms in mesh["owners"].items()}
    for name, part in tree["owners"].items():
        part["brokers"] = {"mesh": {"servers": broker, "signing_key": f"{name}.key"}}
    tree["brokers"]["mesh"]["signing_key"] = "analyst.key"
    path.write_text(yaml.safe_dump(tree | {"mesh": mesh}))
    return path


def test_a_signed_collaboration_refuses_what_others_write(tmp_path, broker):
    with LiveCollaboration(signed_collaboration(tmp_path, broker.address)) as star:
        owners = [star.owner(name) for name in OWNERS]
        wait_until(lambda: all("goes on with a new journal" in owner.log for owner in owners))
        bus = star.bus()
        forged = Query("first", "analyst", "ee" * 16, 1, np.full(2, 0.5), final=False)
        bus.send(star.wire.topics.query, encode_query(forged, star.file.digest()))
        assert bus.flush(PATIENCE)
        bus.close()
        wait_until(lambda: all("a query was refused: signature" in owner.log for owner in owners))
        star.learner()
        star.finish()
        letters = star.start("letters", "deadletters", star.path, "bank-a", "--json")
        assert letters.ends() == 0
        (letter,) = json.loads(letters.log)["peers"]["last"]
        assert "signature" in letter["reason"]
        records = LearnerJournal.read(tmp_path / "state" / "analyst.journal")
        with records as journal:
            learnt = {record.number: record.parameters.tobytes() for record in journal.records()}
        expected = in_memory(star.path)
        assert learnt == {number: record.parameters.tobytes() for number, record in expected.items()}


def test_owners_that_share_a_process_answer_as_they_would_alone(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address)) as star:
        state = ("--state", tmp_path / "state")
        shared = star.start("shared", "owner", star.path, "bank-a", "bank-b", *state)
        star.owner("bank-c")
        star.learner()
        star.finish()
        same_as_in_memory(star)
        assert "all 2 owners have ended" in shared.log
        for name in ("bank-a", "bank-b"):
            with OwnerJournal.read(tmp_path / "state" / f"{name}.journal") as journal:
                assert [one.charged for one in journal.records] == list(range(1, 13))


def asked(star):
    """The last query that the learner's journal knows; 0: none."""
    path = star.folder / "state" / "analyst.journal"
    try:
        with LearnerJournal.read(path) as journal:
            return max((one.number for one in journal.records(1)), default=0)
    except JournalError:
        return 0


def test_killed_owners_and_a_killed_learner_go_on_and_nothing_is_drawn_twice(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address, queries=60)) as star:
        star.begin()
        for at, name in ((8, "bank-a"), (20, "analyst"), (32, "bank-b"), (44, "analyst")):
            wait_until(lambda at=at: asked(star) >= at)
            star.processes[name].kill()
            star.learner() if name == "analyst" else star.owner(name)
        star.finish()
        same_as_in_memory(star)
        for owner in OWNERS:
            with OwnerJournal.read(tmp_path / "state" / f"{owner}.journal") as journal:
                assert [one.charged for one in journal.records] == list(range(1, 61))
        again = star.owner("bank-a")
        assert again.ends() == 0
        assert "the learner is done" in again.log


def test_a_theta_that_diverges_ends_the_learner_with_a_line_and_the_owners(tmp_path, broker):
    strong = {"constraint": None, "algorithm": {"name": "strongly-convex", "rho": 1e200}, "regulariser": 1.0}
    with LiveCollaboration(collaboration_file(tmp_path, broker.address, **strong)) as star:
        star.begin()
        learner = star.processes["analyst"]
        assert learner.ends() == 2
        assert "theta diverges at query 2: the algorithm's step or rho must be smaller" in learner.log
        assert sorted(star.queries()) == [1, 2]
        star.finish(*OWNERS)
        late = star.owner("bank-a")  # one that was away when the learner ended
        assert late.ends() == 0
        over = "the learner has ended the run at query 2 of 12, and asks no more"
        assert all(over in star.processes[name].log for name in OWNERS)
        assert {len(star.values(name)) for name in OWNERS} == {2}
        again = star.learner(label="again")
        assert again.ends() == 2
        assert "theta diverges at query 2" in again.log
        up = star.start("up", "up", star.path, "--state", tmp_path / "state")
        assert up.ends() == 2
        assert "the learner cannot continue" in up.log
        assert "Nothing in owner bank-a's set is protected" in up.log  # its noise is simulated
        assert up.log.strip().splitlines()[-1].startswith("theta diverges at query 2: ")


def test_an_owner_that_does_not_answer_is_left_out_and_reported(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address, response_timeout=1)) as star:
        star.owner("bank-a")
        star.owner("bank-b")
        star.learner()
        star.finish()
        with LearnerJournal.read(tmp_path / "state" / "analyst.journal") as journal:
            records = journal.records()[1:]
        assert {one.missing for one in records} == {("bank-c",)}
        assert {tuple((each.owner, each.weight) for each in one.answers) for one in records} == {
            (("bank-a", 0.6), ("bank-b", 0.4))
        }
        log = star.processes["analyst"].log
        assert log.count("bank-c has not answered query 1 in time: it is left out of it") == 1
        late = star.owner("bank-c")
        assert late.ends() == 0
        assert star.responses("bank-c") == {}


def test_a_learner_that_asks_anew_gets_no_answer_and_its_bytes_are_kept(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address)) as star:
        owner, bus = star.owner("bank-a"), star.bus()
        try:

            def ask(number, *theta):
                query = Query("first", "analyst", "e" * 32, number, np.array(theta), final=False)
                value = encode_query(query, star.file.digest())
                bus.send(star.wire.topics.query, value)
                assert bus.flush(30)
                return value

            ask(1, 0.0, 0.0)
            wait_until(lambda: 1 in star.responses("bank-a"))
            refused = [ask(1, 0.5, 0.0), ask(3, 0.0, 0.0), ask(13, 0.0, 0.0)]
            ask(1, 0.0, 0.0)
            wait_until(lambda: len(star.responses("bank-a")[1]) == 2)
        finally:
            bus.close()
        letters = [decode_dead_letter(one)[1] for one in star.stored(star.wire.topics.dead_letters("bank-a"))]
        assert letters == refused
        assert list(star.values("bank-a")) == [1]
        audit = star.start("audit", "audit", "releases", star.path)
        assert audit.ends() == 1
        assert "query 1 of analyst: 2 values" in audit.log
        owner.terminate()
        assert owner.ends() == 0
        with OwnerJournal.read(tmp_path / "state" / "bank-a.journal") as journal:
            assert [one.charged for one in journal.records] == [1]


def test_the_newest_process_wins_and_a_lost_journal_stops_the_owner(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address)) as star:
        first = star.owner("bank-a")
        wait_until(lambda: "goes on with a new journal" in first.log)
        second = star.owner("bank-a", label="second", state="elsewhere")
        assert first.ends() == 1
        assert "another process of owner bank-a has started after this one" in first.log
        star.owner("bank-b")
        star.owner("bank-c")
        star.learner()
        star.finish("second", "bank-b", "bank-c", "analyst")
        assert second.code == 0
        lost = star.owner("bank-a", label="lost", state="nowhere")
        assert lost.ends() == 1
        assert "holds an answer to query 1 that the journal does not" in lost.log
        anew = star.learner(label="anew", state="nowhere")
        assert anew.ends() == 1
        assert "which this journal did not ask" in anew.log
        assert all(len(values) == 1 for values in star.responses("bank-a").values())


def test_a_set_on_a_topic_ends_where_the_first_answer_found_its_end(tmp_path, broker):
    path, name = collaboration_file(tmp_path, broker.address, queries=6), f"bank-{uuid.uuid4().hex[:8]}"
    tree = yaml.safe_load(path.read_text())
    tree["mesh"]["owners"] = {name: tree["mesh"]["owners"]["bank-c"]}
    on_file = tree["owners"]["bank-c"]["source"]
    lines = (tmp_path / "bank-c.csv").read_text().splitlines()
    on_topic = {key: value for key, value in on_file.items() if key != "path"} | {
        "columns": ["x", "y", "rate"]
    }
    expected = in_memory(written(tmp_path / "file.yaml", tree | {"owners": {name: {"source": on_file}}}))
    brokers = {"mesh": {"servers": broker.address}, "data": {"servers": broker.address}, "trust_broker": True}
    owner = {"source": on_topic, "brokers": brokers}
    mesh = written(path, tree | {"owners": {name: owner}})
    (tmp_path / "set.csv").write_text("".join(f"{line}\n" for line in lines[1:]))
    with LiveCollaboration(mesh) as star:
        fed = star.start("feed", "feed", mesh, name, tmp_path / "set.csv")
        assert fed.ends() == 0, fed.log
        assert f"{star.file.data_topics(name).records}: fed 25 records (lines 1 to 25), 0 bad" in fed.log
        first = star.owner(name)
        wait_until(lambda: "goes on with a new journal" in first.log)
        (tmp_path / "other.csv").write_text("".join(f"{line}\n" for line in reversed(lines[1:])))
        other = star.start("other", "feed", mesh, name, tmp_path / "other.csv")
        assert other.ends() == 1
        assert "the 25 lines that it holds are not the first of these" in other.log
        records = KafkaBus(star.file.mesh_broker, {star.file.data_topics(name).records: 1000})
        try:
            for line in lines[1:4]:
                records.send(star.file.data_topics(name).records, line.encode())
            assert records.flush(30)
        finally:
            records.close()
        star.learner()
        wait_until(lambda: asked(star) >= 2)
        first.kill()
        star.owner(name)
        star.finish("analyst", name)
        assert star.queries() == {number: {one.parameters.tobytes()} for number, one in expected.items()}
        with OwnerJournal.read(tmp_path / "state" / f"{name}.journal") as journal:
            assert {one.set.extent for one in journal.records} == {(("partition 0", 25),)}


def written(path, tree):
    """Write a mesh file, and return its path."""
    path.write_text(yaml.safe_dump(tree))
    return path


def test_up_runs_all_of_it_and_watch_sees_how_far_it_is(tmp_path, broker):
    with LiveCollaboration(collaboration_file(tmp_path, broker.address)) as star:
        before = star.start("before", "watch", star.path, "--once")
        assert before.ends() == 0
        assert "nothing asked yet" in before.log
        up = star.start("up", "up", star.path, "--state", tmp_path / "state")
        assert up.ends() == 0
        assert "query 12 of 12; the learner is done; bank-a answered 12" in up.log
        assert "all queries are answered" in up.log
        same_as_in_memory(star)
        watch = star.start("watch", "watch", star.path)
        assert watch.ends() == 0
        assert "query 12 of 12; the learner is done" in watch.log
        once = star.start("once", "watch", star.path, "--once")
        assert once.ends() == 0
        assert "answered 12" in once.log


def asked_for(quotas):
    """The quotas as a broker keeps them."""
    return {name: quota._asdict() for name, quota in quotas.items()}


def test_each_party_does_its_work_with_its_own_rights_and_no_more(tmp_path, secure_broker, monkeypatch):
    path = collaboration_file(tmp_path, secure_broker.address)
    tree = yaml.safe_load(path.read_text())
    tree["brokers"]["mesh"] |= {"username": "${MESH_USER}", "password": "${MESH_PASSWORD}"}
    users = Users(written(path, tree), secure_broker, monkeypatch)
    with LiveCollaboration(path) as star:
        topics, needed = star.wire.topics, {name: owner_on_mesh(star.wire.topics, name) for name in OWNERS}
        needed["analyst"] = learner(topics, "analyst", OWNERS)
        assert users.provision().different
        quotas = {user.name: user.quota for user in collaboration_users(star.wire)}
        with users.admin() as admin:
            until(lambda: {name: admin.quotas().get(name) for name in quotas} == asked_for(quotas))
        until(lambda: not any(users.wrong(user, access) for user, access in needed.items()))
        for name in OWNERS:
            users.be(name)
            star.owner(name)
        users.be("analyst")
        star.learner()
        star.finish()
        users.be("admin")
        same_as_in_memory(star)
    assert not users.provision().different
    for topic in (topics.response("bank-b"), topics.progress("bank-b"), topics.progress("analyst")):
        assert not reads(users.settings("bank-a"), topic)
    for user in ("analyst", f"{star.file.mesh.name}-auditor"):
        assert reads(users.settings(user), topics.response("bank-b"))
    others = [Access((), (topics.query,)), Access((), (topics.response("bank-b"),))]
    assert all(users.wrong("bank-a", access) for access in others)
    assert users.wrong("analyst", Access((), (topics.response("bank-b"),)))
