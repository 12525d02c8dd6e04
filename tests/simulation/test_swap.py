"""Change one record of one node: nothing that is shared may tell, but the release values that follow."""

from copy import deepcopy
from dataclasses import replace
from math import inf

import pytest
from prometheus_client import generate_latest

from nodes.machine.events import Decided, Scored
from nodes.protocol import Noticed, Stepped
from streams.codec import decode_release
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.records.record import RawRecord
from tests.support.meshes.files import changed, counted_ids, loaded
from tests.support.nodes.metrics import metrics, private, shown

CHANGED = 6  # the slot of the changed record
CONTENTS = {
    "another value": b'{"x": 1.5, "y": 0.0, "distance": 2.9}',
    "malformed": b"\xff\x00{",
    "empty": b"",
    "huge": b'{"x": 1.5, "y": 0.0, "distance": ' + b"9" * 100_000 + b"}",
    "not a number": b'{"x": NaN, "y": 0.0, "distance": 1.0}',
    "infinite": b'{"x": 1e308, "y": 1e308, "distance": -1e308}',
    "wrong width": b'{"x": 1.0, "distance": 1.0}',
    "another type": b'["x", "y"]',
}
VARYING = ("mirrormesh_consensus_gap",)  # a distance between releases
MESHES = {
    "gradient": changed(),
    "parameters": changed(privacy={"on": "parameters", "norm": "l2"}),
    # one node learns on, so the run does
    "budget": changed(privacy={"budget": 5}, nodes={"a": {}, "b": {}, "c": {}, "d": {"epsilon": 0.25}}),
    "mini-batch": changed(slots={"by": "count", "size": 3}, rounds=8),
    "gaussian": changed(privacy={"mechanism": "gaussian", "delta": 1e-6, "gradient_bound": 0.05}),
    # the seed: one in which the changed record turns the direction that it becomes
    "l2-sphere": changed(privacy={"mechanism": "l2-sphere", "gradient_bound": 0.05}, seed=1),
    "gaussian-bisr": changed(privacy={"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4}),
}


def shared(file, change=lambda kept: None, errors=None):
    """Run the mesh with node b's records changed; return all that is shared, and the release values apart.

    `errors` gets the tracking errors that node b shows its owner, round by round.
    """
    parts = mesh_parts(file)
    records = iter(parts.nodes["b"].records)
    kept = [next(records) for _ in range(100)]
    change(kept)
    parts = replace(parts, nodes=parts.nodes | {"b": replace(parts.nodes["b"], records=kept)})
    now = [1e9]  # a virtual clock, which goes on with what happens
    events, neighbours = [], parts.scheduler.schedule.graph.neighbours
    figures = {
        name: metrics(
            node.learner, sources=neighbours(name)[0], truth=errors is not None, clock=lambda: now[0]
        )
        for name, node in parts.nodes.items()
    }

    def report(name, report):
        now[0] += 0.07
        figures[name].timing.began()
        figures[name].report(report)
        figures[name].catch_up()
        figures[name].timing.entered()
        if errors is not None and name == "b" and isinstance(report, Scored):
            errors.append(private(figures["b"], "tracking_error"))
        match report:
            case Noticed(notice, source, round):
                events.append((name, notice, source, round))
            case Decided(round) | Stepped(round):
                events.append((name, type(report), round))

    mesh = MemoryMesh(parts, report, new_id=counted_ids())
    mesh.run()
    assert mesh.done
    said, values = [], {}
    for topic in mesh.bus.topics:
        for value in mesh.bus.read(topic, 0):
            if ".edge." not in topic:
                said.append((topic, value))
                continue
            message = decode_release(value, parts.expected(topic.split(".")[3]))
            values[topic, message.round] = message.release.tobytes()
            said.append((topic, len(value), value[: len(value) - message.release.nbytes]))
    for name, node in mesh.nodes.items():
        for record in node.journal.records():
            mean = record.average.mean.tobytes() if record.average else b""
            values[name, "journal", record.round] = record.release.tobytes() + mean
            by_count = file.mesh.slots.by == "count"  # else the positions (private) move
            rounds = record.average and record.average.rounds
            position = by_count and record.data_position
            read = by_count and record.read
            shown_record = record._replace(release=None, average=rounds, data_position=position, read=read)
            said.append((name, shown_record))
    refused = {name: node.refused for name, node in mesh.nodes.items()}
    shows = {name: steady(shown(figure.shared)) for name, figure in figures.items()}
    shows["scheduler"] = of_a_scheduler(parts, mesh, now[0])
    return (events, [repr(item) for item in said], refused, shows), values


def of_a_scheduler(parts, mesh, now):
    """What a scheduler shows that has read the mesh's logs but its end, and then hears them again: b'...'."""
    figures = SchedulerMetrics("tracking", mesh.nodes, connected=lambda: True, clock=lambda: now)
    end = mesh.broker.logs[parts.topics.topology].records.pop()  # else it would end at once
    runner = MemoryScheduler(parts, mesh.broker, figures).runner
    mesh.broker.logs[parts.topics.topology].records.append(end)
    from_logs = generate_latest(figures.shared.collected)
    for topic in map(parts.topics.progress, mesh.nodes):
        for value in mesh.bus.read(topic, 0):
            runner.read(topic, 0, value, inf)
    hearing = generate_latest(figures.shared.collected)
    assert hearing != from_logs
    return from_logs, hearing


def steady(samples):
    """The samples without those of release values."""
    return {key: value for key, value in samples.items() if not key[0].startswith(VARYING)}


@pytest.mark.parametrize("content", sorted(CONTENTS))
@pytest.mark.parametrize("mesh", sorted(MESHES))
def test_nothing_shared_but_release_values_depends_on_a_records_content(tmp_path, mesh, content):
    file = loaded(tmp_path, MESHES[mesh])

    def change(kept):
        kept[(CHANGED - 1) * file.mesh.slots.size] = RawRecord(CONTENTS[content])

    differing = what_differs(file, change)
    if mesh != "budget":
        assert differing  # the record was learnt from: the test would see a difference
    else:
        assert not differing  # slot 6 is after the last learning round


def what_differs(file, change):
    """The releases that differ, of which all are later than slot CHANGED; nothing else may."""
    usual, values = shared(file)
    other, other_values = shared(file, change)
    assert other == usual
    assert values.keys() == other_values.keys()
    differing = {key for key in values if values[key] != other_values[key]}
    assert all(key[-1] > CHANGED for key in differing)
    return differing


TRUTHS = (b"-7.5", b'"here"', b"null", b"1e999", b"9" * 999)
"""Of slots 2 to 6: other numbers, and what is none."""


@pytest.mark.parametrize("mesh", sorted(MESHES))
def test_nothing_but_its_owners_metrics_depends_on_what_records_say_of_the_truth(tmp_path, mesh):
    tree = deepcopy(MESHES[mesh])
    plain = shared(loaded(tmp_path, tree))
    tree["nodes"]["b"]["source"]["truth"] = True
    file, errors, other_errors = loaded(tmp_path, tree), [], []

    def change(kept):
        for slot, truth in enumerate(TRUTHS, 2):
            for place in range((slot - 1) * file.mesh.slots.size, slot * file.mesh.slots.size):
                line, _, _ = kept[place].value.partition(b', "target_y"')
                kept[place] = RawRecord(b'%s, "target_y": %s}' % (line, truth))

    usual = shared(file, errors=errors)
    other = shared(file, change, other_errors)
    assert other == usual == plain  # the values of releases, too, bit for bit
    told = [slot for slot, pair in enumerate(zip(errors, other_errors, strict=True), 1) if pair[0] != pair[1]]
    assert told == [2, 3, 4, 5, 6]


BY_TIME = changed(slots={"by": "time", "start": 0, "period": 1.0, "size": 2, "grace": 0.0}, rounds=10)
BY_TIME["mesh"]["slots"].pop("timeout", None)
TIME_CHANGES = {
    "removed": lambda kept: kept.pop(CHANGED - 1),
    "added": lambda kept: kept.insert(
        CHANGED, kept[CHANGED - 1]._replace(value=b'{"x": 0, "y": 1, "distance": 3}')
    ),
    "replaced": lambda kept: kept.__setitem__(CHANGED - 1, kept[CHANGED - 1]._replace(value=b"{}")),
}


@pytest.mark.parametrize("change", sorted(TIME_CHANGES))
def test_in_slots_by_time_a_record_may_also_be_added_or_removed(tmp_path, change):
    assert what_differs(loaded(tmp_path, BY_TIME), TIME_CHANGES[change])
