"""`privacy.unit` in a mesh file: its price, its sentence, and one line for each mistake."""

from fractions import Fraction

import pytest

from nodes.accounting.reuse import Reuse, total
from nodes.accounting.spends import Span, Spend
from nodes.machine.events import OpenSlot
from nodes.privacy.reveal import opened
from nodes.privacy.unit import unit_number
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load
from streams.mesh.settings.rule import resolved, written_out
from streams.records.frames import with_records
from streams.records.record import WholeMessage
from streams.records.slot_feed import DataLog, SlotFeed
from streams.records.sources import decoder, open_source

MESH = """
mesh:
  name: pay
  run: r1
  nodes: [a, b, c]
  rounds: ROUNDS
  features:
    features: {amount: {bounds: [0, 1]}}
    label: {column: fraud, positive: "1"}
  algorithm: {name: dola, mirror_map: euclidean, constraint: {l2-ball: 5}, step_size: {rule: constant, a: 1}}
  loss: logistic
  slots: {by: count, size: 10}
  privacy: {MECHANISM, gradient_bound: 1, unit: {UNIT}}
  topology: {graph: complete}
nodes:
  a: {source: {kind: json-lines, path: a.jsonl}}
"""
LAPLACE, GAUSSIAN = "mechanism: laplace, epsilon: 1", "mechanism: gaussian, epsilon: 1, delta: 1e-6"


def written(tmp_path, unit, mechanism=LAPLACE, rounds="20", **changes):
    text = MESH.replace("UNIT", unit).replace("MECHANISM", mechanism).replace("ROUNDS", rounds)
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "mesh.yaml"
    path.write_text(text)
    return path


def mesh(*arguments, **changes):
    return load(written(*arguments, **changes))


def test_epsilon_is_the_units(tmp_path):
    laplace = mesh(tmp_path, "column: who, records: 5").resolved.node("a")
    assert laplace.guarantee.epsilon == 1
    assert laplace.mechanism.epsilon == Fraction(1, 5)
    shared = mesh(tmp_path, "column: who, records: 5, sharing: 3").resolved.node("a")
    assert shared.guarantee.epsilon == 1
    assert shared.mechanism.epsilon == Fraction(1, 15)
    record = laplace.mesh.settings.privacy
    assert record.protected == "who"


def test_gaussian_noise_grows_with_the_root_of_the_rounds(tmp_path):
    one, five = (
        mesh(tmp_path, f"column: who, records: {k}", GAUSSIAN, apart=("records", f"apart: {b}, records"))
        for k, b in ((1, 20), (5, 4))
    )
    scales = [file.resolved.node("a").mechanism.scale for file in (one, five)]
    assert scales[1] / scales[0] == pytest.approx(5**0.5, rel=1e-9)
    guarantee = five.resolved.node("a").guarantee
    assert (guarantee.epsilon, guarantee.delta) == (1, 1e-6)


def test_a_schedule_is_priced_by_its_dearest_rounds(tmp_path):
    growing = "mechanism: laplace, epsilon: {total: 40, rounds: 20, schedule: growing}"
    uniform = growing.replace("growing", "uniform")
    node = mesh(tmp_path, "column: who, records: 5", growing).resolved.node("a")
    assert node.guarantee.epsilon == sum(node.mechanism.schedule.epsilon_at(t) for t in (4, 8, 12, 16, 20))
    assert mesh(tmp_path, "column: who, records: 5", uniform).resolved.node("a").guarantee.epsilon == 1


def test_nothing_is_learnt_after_the_rounds_of_the_bound(tmp_path):
    ledger = mesh(tmp_path, "column: who, records: 5").resolved.node("a").ledger
    assert ledger.last_learning_round == 20
    assert not ledger.may_learn(21, 0)
    endless = mesh(tmp_path, "column: who, records: 5, apart: 4", rounds="none").resolved.node("a")
    assert endless.ledger.last_learning_round is None
    assert "for what is said in any 20 rounds in a row" in endless.guarantee.sentence("a")


def test_the_sentence(tmp_path):
    sentence = mesh(tmp_path, "column: who, records: 5").guarantee("a").sentence("a")
    assert sentence.startswith(
        "Everything that one who's records say at node a is protected with epsilon = 1 (pure), for the whole "
        "stream, against everyone on the mesh broker"
    )
    assert "at most 5 of 20 rounds, 4 apart, with one record in each" in sentence
    assert "what one says at n nodes is protected at n epsilon" in sentence
    shared = mesh(tmp_path, "column: who, records: 5, sharing: 2", GAUSSIAN).guarantee("a").sentence("a")
    assert "at up to 1 more that share the epsilon" in shared
    assert "n/2 epsilon and n/2 delta" in shared


def test_a_record_is_in_one_of_few_rounds_in_a_run_of_files(tmp_path):
    lines = [f'{{"who": "u{k % 7}", "amount": 0.5, "fraud": 1}}' for k in range(200)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    file = mesh(tmp_path, "column: who, records: 5")
    source = open_source(file, "a", 0)
    feed, position, rounds = SlotFeed(DataLog(source.records), file.resolved.slots, source.decoder), (), {}
    for round in range(1, 21):
        closed = feed.close(OpenSlot(round, position))
        position = closed.position
        for (_, offset), counts in zip(opened(closed.places), opened(closed.counts), strict=True):
            if counts:
                rounds.setdefault(f"u{offset % 7}", []).append(round)
    assert {len(set(of_unit)) for of_unit in rounds.values()} == {5}
    assert {len(of_unit) for of_unit in rounds.values()} == {5}


SOURCES = ("source: {kind: json-lines, path: a.jsonl}", "source: {kind: SOURCE}")
TOPIC = "source: {kind: topic, topic: pay, where: {op: [c]}}"
SPHERE = "mechanism: l2-sphere, epsilon: 1"


@pytest.mark.parametrize(
    ("unit", "changes", "line"),
    [
        ("column: who, records: 0", {}, "mesh.privacy.unit.records: 0: must be at least 1"),
        ('column: "", records: 1', {}, 'mesh.privacy.unit.column: "": must not be empty'),
        ("records: 1", {}, "mesh.privacy.unit.column: missing"),
        ("column: who", {}, "mesh.privacy.unit.records: missing"),
        (
            "column: who, records: 6, apart: 4",
            {},
            "mesh.privacy.unit.records: 6: times apart, 4, is beyond the 20 rounds: must be at most 5",
        ),
        (
            "column: who, records: 4, apart: 4",
            {},
            "mesh.privacy.unit.apart: 4: a unit would take part in more than 4 of 20 rounds: must be",
        ),
        ("column: who, records: 2, sharing: 0", {}, "mesh.privacy.unit.sharing: 0: must be at least 1"),
        ("column: who, records: 2, spread: first", {}, 'mesh.privacy.unit.spread: "first": must be'),
        (
            "column: who, records: 2",
            {"rounds": "none"},
            "mesh.privacy.unit.apart: missing: must be given, or",
        ),
        (
            "column: who, records: 2",
            {"mechanism": "mechanism: none"},
            'mesh.privacy.unit: {"column": "who", "records": 2}: mechanism none protects nothing',
        ),
        (
            "column: fraud, records: 2",
            {},
            'mesh.privacy.unit.column: "fraud": the label is what is protected: must be another column',
        ),
        (
            "column: who, records: 2",
            {"source": (SOURCES[0], "source: {kind: csr, path: a.npz}")},
            'nodes.a.source.kind: "csr": its records have no column who (mesh.privacy.unit): must be csv',
        ),
        (
            "column: who, records: 2",
            {"mechanism": SPHERE, "source": (SOURCES[0], TOPIC)},
            "nodes.a.source.where: l2-sphere with a unit counts every message: must not be given",
        ),
    ],
)
def test_each_mistake_is_one_line(tmp_path, unit, changes, line):
    with pytest.raises(MeshFileError) as refusal:
        mesh(tmp_path, unit, **changes)
    found = "\n".join(refusal.value.lines)
    assert f"{tmp_path / 'mesh.yaml'}: {line}" in found
    assert len(refusal.value.lines) == 1 or "csr" in line


def test_a_file_without_the_column_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("amount,fraud\n0.5,1\n")
    file = mesh(tmp_path, "column: who, records: 2", source=("json-lines, path: a.jsonl", "csv, path: a.csv"))
    with pytest.raises(MeshFileError, match=r'schema: "who": not in the header of'):
        open_source(file, "a", 0)


def test_a_changed_unit_in_a_run_changes_the_price(tmp_path):
    before = mesh(tmp_path, "column: who, records: 5").resolved.price("a")
    for unit in (
        "column: else, records: 5",
        "column: who, records: 4",
        "column: who, records: 5, sharing: 2",
    ):
        assert before.changed(mesh(tmp_path, unit).resolved.price("a")) is not None
    endless = mesh(tmp_path, "column: who, records: 5, apart: 4", rounds="none").resolved.price("a")
    assert before.changed(endless) is not None
    fewer = mesh(tmp_path, "column: who, records: 5, apart: 4", rounds="18").resolved.price("a")
    assert before.changed(fewer) is None


def test_a_unit_is_in_the_digest_and_a_file_without_one_keeps_its_own(tmp_path):
    one, other = (mesh(tmp_path, f"column: who, records: {k}").digest() for k in (4, 5))
    assert one != other
    plain = mesh(tmp_path, "U", none=(", unit: {U}", ""))
    assert "unit" not in plain.mesh.agreed_text


HERE = (Span("0", 0, 10),)


def life(run, epsilon=1, unit="who", sharing=1, node="a", spans=HERE):
    settings = (("unit", unit), ("sharing", str(sharing))) if unit else ()
    return Spend(run, 3, Fraction(epsilon), 0.0, 1.0, 0.0, spans, mesh="pay", settings=settings, node=node)


def test_all_runs_and_lives_add_up_whatever_they_read():
    apart = life("r2", spans=(Span("0", 10, 20),))
    assert total([life("r1"), apart]).epsilon == 1  # records: no record is in both
    assert total([life("r1"), apart], "who").epsilon == 2
    assert total([life("r1"), life("r2", unit="")], "who").epsilon is None
    assert total([life("r1", sharing=2), life("r1", sharing=2, node="b")], "who").epsilon == 1
    assert total([life("r1"), life("r1", node="b")], "who").epsilon == 2
    reuse = Reuse((apart,), life("r1"))
    assert "over all runs each who is protected with epsilon = 2" in reuse.sentence()
    beside = Reuse((life("r1", node="b"),), life("r1"))
    assert "one who in both is protected with epsilon = 2" in beside.sentence()


DOLA = next(line.strip() for line in MESH.splitlines() if "dola" in line)
RULED = {
    "algorithm": (
        DOLA,
        "rule: {version: 2, records: 1000, members: 3}",
    ),
    "slots": ("  slots: {by: count, size: 10}\n", ""),
    "rounds": ("  rounds: ROUNDS\n", ""),
    "bound": ("MECHANISM, gradient_bound: 1", "epsilon: 1, delta: 1e-6"),
}


def ruled(tmp_path, unit, **more):
    text = MESH.replace("UNIT", unit)
    for old, new in (RULED | more).values():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "mesh.yaml").write_text(text)
    return load(tmp_path / "mesh.yaml")


def test_a_rule_chooses_k_b_slots_and_mechanism_together(tmp_path):
    settings = ruled(tmp_path, "column: who").mesh
    assert (settings.rounds, settings.slots.size, settings.unit.records, settings.unit.apart) == (
        1,
        1000,
        1,
        1,
    )
    assert (settings.privacy.mechanism, settings.algorithm.name) == ("laplace", "class-sums")
    assert settings.privacy.delta is None
    given = ruled(tmp_path, "column: who", size=("  loss:", "  slots: {by: count, size: 10}\n  loss:")).mesh
    assert (given.rounds, given.unit.records, given.unit.apart) == (100, 20, 5)
    assert (given.privacy.mechanism, given.privacy.bands) == ("gaussian-bisr", 4)
    of_k = ruled(tmp_path, "column: who, records: 4").mesh
    assert (of_k.rounds, of_k.slots.size, of_k.unit.apart) == (4, 250, 1)
    assert len({mesh.digest() for mesh in (settings, given, of_k)}) == 3
    keys = [key for key, *_ in resolved(given)]
    assert keys[:4] == ["slots.size", "rounds", "privacy.unit.records", "privacy.unit.apart"]
    explicit = written_out(given, {"privacy": {"unit": {"column": "who"}}})
    assert explicit["privacy"]["unit"] == {"column": "who", "records": 20, "apart": 5}
    assert explicit["rounds"] == 100


def test_a_written_out_rule_means_the_same(tmp_path):
    settings = ruled(tmp_path, "column: who").mesh
    for key, choice, value in resolved(settings):
        assert choice.value == value, key


@pytest.mark.parametrize(
    ("unit", "more", "line"),
    [
        (
            "column: who",
            {"algorithm": (RULED["algorithm"][0], "rule: {version: 1, records: 1000, members: 3}")},
            "mesh.rule.version: 1: a rule of version 1 knows no units: must be 2",
        ),
        ("records: 2", {}, "mesh.privacy.unit.column: missing"),
        ("column: who, records: 0", {}, "mesh.privacy.unit.records: 0: must be at least 1"),
        ("column: fraud", {}, 'mesh.privacy.unit.column: "fraud": the label is what is protected'),
    ],
)
def test_each_mistake_of_a_unit_with_a_rule_is_one_line(tmp_path, unit, more, line):
    with pytest.raises(MeshFileError) as refusal:
        ruled(tmp_path, unit, **more)
    assert [f"{tmp_path / 'mesh.yaml'}: {line}"] == [
        text[: len(line) + len(str(tmp_path)) + 12] for text in refusal.value.lines
    ]


def test_units_of_parquet_and_of_frames_are_those_of_json_lines(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")
    rows = {"who": [f"u{k % 3}" for k in range(20)] + [""], "amount": [0.5] * 21, "fraud": ["1"] * 21}
    arrow.parquet = pytest.importorskip("pyarrow.parquet")
    arrow.parquet.write_table(arrow.table(rows), tmp_path / "a.parquet")
    numbers = [unit_number(name) if name else None for name in rows["who"]]
    unit = "column: who, records: 5"
    parquet = mesh(tmp_path, unit, source=("json-lines, path: a.jsonl", "parquet, path: a.parquet"))
    for file in (parquet, with_records(mesh(tmp_path, unit), {"a": rows}, named=False)):
        source = open_source(file, "a", 0)
        assert source.decoder.units([record.value for record in source.records]) == numbers


def test_a_feature_that_names_the_units_is_warned_of(tmp_path):
    hashed = ("amount: {bounds: [0, 1]}", "amount: {bounds: [0, 1]}, who: {hashed: 8}")
    (line,) = mesh(tmp_path, "column: who, records: 5", hashed=hashed).resolved.cautions
    assert line.startswith("mesh.features.features.who: names the units (mesh.privacy.unit)")
    assert not list(mesh(tmp_path, "column: who, records: 5").resolved.cautions)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b'{"customer": {"id": 7}}', True),
        (b'{"customer.id": "7.0"}', True),
        (b'{"customer": {"id": {"x": 7}}}', False),
        (b'{"customer": {"id": ""}}', False),
        (b'{"customer": {"id": null}}', False),
        (b'{"customer": 7}', False),
        (b"{}", False),
    ],
)
def test_a_unit_in_a_nested_field_of_a_topic(tmp_path, value, named):
    topic = (SOURCES[0], "source: {kind: topic, topic: pay}")
    units = decoder(mesh(tmp_path, "column: customer.id, records: 5", source=topic), "a")
    assert units.unit(WholeMessage.of(value, None, [])) == (unit_number("7") if named else None)
