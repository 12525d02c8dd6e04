"""The mesh file of a collaboration: what it means, and one line for each mistake."""

from pathlib import Path

import pytest

from nodes.collaboration.steps import Averaged, StronglyConvex
from nodes.losses.losses import Squared
from streams.collaboration.file import CollaborationFile
from streams.mesh.file import MeshFileError, load, load_any
from streams.terminal.collaboration import facts

GOOD = """\
mesh:
  kind: collaboration
  name: lending
  run: first
  learner: analyst
  owners:
    bank-a: {records: 12, epsilon: 1}
    bank-b: {records: 8, epsilon: 10, mechanism: gaussian, delta: 1.0e-6}
  dimension: 3
  loss: squared
  constraint: {l2-ball: 10}
  algorithm: {name: averaged, step: 1.5}
  queries: 100
  gradient_bound: 1
owners:
  bank-a:
    source:
      kind: csv
      path: a.csv
      schema: {features: {x: number, y: number}, label: {column: z}, intercept: true}
  bank-b: b.yaml
"""


def weighed(text: str, form: str) -> str:
    return text.replace("  queries: 100", f"  queries: 100\n  weights: {form}")


def read(folder: Path, text: str) -> CollaborationFile:
    path = folder / "lending.yaml"
    path.write_text(text)
    found = load_any(path)
    assert isinstance(found, CollaborationFile)
    return found


def lines(folder: Path, *changes: tuple[str, str]) -> list[str]:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(MeshFileError) as error:
        read(folder, text)
    return [line.removeprefix(f"{folder / 'lending.yaml'}: ") for line in error.value.lines]


def test_the_file_says_what_learner_and_owners_do(tmp_path):
    file = read(tmp_path, GOOD)
    whole = file.resolved
    assert isinstance(whole.step, Averaged)
    assert (whole.step.queries, whole.step.step, whole.step.dimension) == (100, 1.5, 3)
    assert whole.records == {"bank-a": 12, "bank-b": 8}
    a, b = whole.mechanism("bank-a"), whole.mechanism("bank-b")
    assert (a.name, a.records, a.epsilon, a.delta, a.simulated) == ("laplace", 12, 1, 0.0, False)
    assert (b.name, b.records, b.epsilon, b.delta) == ("gaussian", 8, 10, 1e-6)
    assert b.noise_scale < a.noise_scale
    assert isinstance(whole.loss, Squared)


def test_an_owners_part_may_be_elsewhere(tmp_path):
    file = read(tmp_path, GOOD)
    assert file.own("bank-a").source is not None
    with pytest.raises(MeshFileError, match=r"owners.bank-b: .*no such file: must be here to run the owner"):
        file.own("bank-b")
    with pytest.raises(MeshFileError, match="is no owner of the mesh"):
        file.own("bank-c")


def test_algorithm_one_has_no_constraint(tmp_path):
    text = GOOD.replace("averaged, step: 1.5", "strongly-convex, rho: 20")
    step = read(tmp_path, text.replace("  constraint: {l2-ball: 10}\n", "")).resolved.step
    assert isinstance(step, StronglyConvex)
    assert (step.rho, step.dimension) == (20.0, 3)
    assert "mesh.constraint" in lines(tmp_path, ("averaged, step: 1.5", "strongly-convex, rho: 20"))[0]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("12, epsilon: 1}", "12}", "mesh.owners.bank-a.epsilon: missing: must be given"),
        ("records: 12", "records: 0", "mesh.owners.bank-a.records: 0: must be at least 2"),
        ("records: 12", "records: 1", "mesh.owners.bank-a.records: 1: must be at least 2"),
        ("queries: 100", "queries: 0", "mesh.queries: 0: must be at least 1"),
        ("  queries", "  sharing: 0\n  queries", "mesh.sharing: 0: must be at least 1"),
        ("  queries", "  sharing: 3\n  queries", "mesh.sharing: 3: must be at most 2, the number of owners"),
        ("gaussian", "gaussian-bisr", "mesh.owners.bank-b.mechanism: "),
        ("gaussian", "l2-sphere", "mesh.owners.bank-b.mechanism: "),
        (", delta: 1.0e-6", "", "mesh.owners.bank-b.delta: missing: mechanism gaussian needs"),
        ("epsilon: 1}", "epsilon: 1, delta: 0.1}", "mesh.owners.bank-a.delta: 0.1: is for mechan"),
        ("dimension: 3", "dimension: 4", "owners.bank-a.source.schema: makes 3 features: must be 4"),
        ("loss: squared", "loss: hinge", "owners.bank-a.source.schema.label: must say which labels are"),
        ("loss: squared", "loss: {softmax: 3}", 'mesh.loss: {"softmax": 3}: must be a loss of one score'),
        ("learner: analyst", "learner: bank-a", 'mesh.learner: "bank-a": bank-a is also an owner'),
        ("averaged, step: 1.5", "averaged", "mesh.algorithm.step: missing: averaged needs a number"),
        ("epsilon: 1}", "epsilon: 1.0e-7}", "mesh.owners.bank-a.epsilon: 1e-07: epsilon is 1e-09: must be"),
        ("kind: coll", "kind: call", "mesh.kind: "),
        ("path: a.csv", "path: '-'", 'owners.bank-a.source.path: "-": every query reads the set'),
        ("path: a.csv", "shuffle: true", "owners.bank-a.source.shuffle: true: every query uses every record"),
    ],
)
def test_a_mistake_names_owner_and_field(tmp_path, old, new, line):
    assert lines(tmp_path, (old, new))[0].startswith(line)


def test_what_needs_a_mesh_of_nodes_says_so(tmp_path):
    read(tmp_path, GOOD)
    with pytest.raises(MeshFileError, match="describes a collaboration: must be a mesh of nodes"):
        load(tmp_path / "lending.yaml")


def test_the_digest_is_of_what_all_must_share(tmp_path):
    digest = read(tmp_path, GOOD).digest()
    same = GOOD.replace("run: first", "run: second").replace("queries", "response_timeout: 5\n  queries")
    assert read(tmp_path, same).digest() == digest
    assert read(tmp_path, GOOD.replace("epsilon: 10", "epsilon: 9")).digest() != digest
    assert read(tmp_path, weighed(GOOD, "records")).digest() == digest
    assert read(tmp_path, weighed(GOOD, "noise")).digest() != digest
    assert read(tmp_path, GOOD.replace("step: 1.5", "step: 1.6")).digest() != digest


def test_the_text_of_a_source_has_its_schema_and_no_path(tmp_path):
    text = read(tmp_path, GOOD).mesh.source_text(read(tmp_path, GOOD).own("bank-a").source)
    assert "a.csv" not in text
    other = read(tmp_path, GOOD.replace("x: number", "x: {bounds: [0, 1]}"))
    assert other.mesh.source_text(other.own("bank-a").source) != text


@pytest.mark.parametrize("value", ["[laplace]", "{laplace: 1}"])
def test_a_mechanism_that_is_no_text_is_a_line(tmp_path, value):
    (line,) = lines(tmp_path, ("mechanism: gaussian", f"mechanism: {value}"))
    assert line.startswith("mesh.owners.bank-b.mechanism: ")
    assert line.endswith("must be laplace or gaussian")


def with_brokers(more: str = "") -> str:
    brokers = f'brokers: {{mesh: {{servers: "m:9092"}}{more}}}'
    return GOOD.replace("  bank-a:\n    source:", f"  bank-a:\n    {brokers}\n    source:")


def test_an_owner_of_a_file_names_the_shared_broker_alone(tmp_path):
    file = read(tmp_path, with_brokers())
    assert (file.mesh_broker_of("bank-a").servers, file.names_brokers) == ("m:9092", True)


def test_an_owner_of_a_topic_needs_its_own_broker_too(tmp_path):
    on_topic = with_brokers().replace("      path: a.csv\n", "")
    with pytest.raises(MeshFileError) as error:
        read(tmp_path, on_topic).brokers("bank-a")
    assert error.value.lines[0].endswith(
        "owners.bank-a.brokers.data: missing: must be given, for its records"
    )
    both = with_brokers(', data: {servers: "d:9092"}').replace("      path: a.csv\n", "")
    assert read(tmp_path, both).brokers("bank-a").data.servers == "d:9092"


RELUCTANT = GOOD.replace("bank-a: {records: 12, epsilon: 1}", "bank-a: {records: 12, epsilon: 1000}").replace(
    "bank-b: {records: 8, epsilon: 10, mechanism: gaussian, delta: 1.0e-6}",
    "bank-b: {records: 8, epsilon: 0.1}\n    bank-c: {records: 8, epsilon: 0.1}",
)


def of_plan(folder: Path, text: str, fact: str) -> list[str]:
    return [words for name, words in facts(read(folder, text)) if name == fact]


def test_plan_has_each_owners_share_of_the_records_beside_its_share_of_the_model(tmp_path):
    even, uneven = (of_plan(tmp_path, weighed(RELUCTANT, form), "owner") for form in ("records", "noise"))
    assert even[0].startswith("bank-a: 12 records, 0.429 of all, and 0.429 of the model; ")
    assert uneven[0].startswith("bank-a: 12 records, 0.429 of all, and 1 of the model; ")
    scale = 2 * 100 / (8 * 0.1)
    count_b, count_a = 1 / (3 * 2 * scale**2 + 1 / 8), 1 / (3 * 2 * (2 * 100 / 12_000) ** 2 + 1 / 12)
    share = count_b / (2 * count_b + count_a)
    assert uneven[1].startswith(f"bank-b: 8 records, 0.286 of all, and {share:.3g} of the model; ")
    assert of_plan(tmp_path, RELUCTANT, "") == []
    less = f"its share of the model is {share / (8 / 28):.2g} times that of the records"
    hardly = [f"the model is hardly {name}'s: {less}" for name in ("bank-b", "bank-c")]
    assert of_plan(tmp_path, weighed(RELUCTANT, "noise"), "") == hardly


@pytest.mark.parametrize("epsilon", [30, 36, 39, 60])
def test_the_model_is_hardly_of_an_owner_whose_share_is_below_a_tenth_of_its_records(tmp_path, epsilon):
    variances = [
        3 * 2 * (2 * 100 / (n * e)) ** 2 + 1 / n for n, e in ((12, 1000), (8, epsilon), (8, epsilon))
    ]
    counts = [1 / variance for variance in variances]
    ratio = counts[1] / sum(counts) / (8 / 28)
    assert 0.05 < ratio < 0.5
    text = weighed(RELUCTANT.replace("epsilon: 0.1}", f"epsilon: {epsilon}}}"), "noise")
    assert len(of_plan(tmp_path, text, "")) == (2 if ratio < 0.1 else 0)


def test_plan_and_check_warn_where_a_few_owners_noise_is_nearly_all_with_the_figure_of_the_other_weights(
    tmp_path,
):
    (warning,) = read(tmp_path, RELUCTANT).resolved.dominated
    assert warning in of_plan(tmp_path, RELUCTANT, "warning")
    variances = [3 * 2 * (2 * 100 / (n * epsilon)) ** 2 for n, epsilon in ((12, 1000), (8, 0.1), (8, 0.1))]
    length = sum((n / 28) ** 2 * v for n, v in zip((12, 8, 8), variances, strict=True)) ** 0.5
    counts = [1 / (v + 1 / n) for n, v in zip((12, 8, 8), variances, strict=True)]
    other = sum((c / sum(counts)) ** 2 * v for c, v in zip(counts, variances, strict=True)) ** 0.5
    assert warning == (
        "mesh.weights: records: nearly all of the noise is that of bank-b, bank-c: of all answers it is "
        f"{length:.3g} times as long as the mean gradient can be, with weights: noise {other:.3g} times. "
        "Set that, leave bank-b, bank-c out, or raise the epsilon there"
    )
    (noise,) = of_plan(tmp_path, weighed(RELUCTANT, "noise"), "noise")
    assert f"is {other:.3g} times as long" in noise
    assert noise.endswith(f"with weights: records {length:.3g} times")
    assert read(tmp_path, weighed(RELUCTANT, "noise")).resolved.dominated == []
    assert read(tmp_path, RELUCTANT.replace("epsilon: 0.1}", "epsilon: 1000}")).resolved.dominated == []


@pytest.mark.parametrize(("epsilon", "dominates"), [(1, False), (0.1, True)])
def test_noise_that_is_less_than_what_few_records_cost_dominates_nothing(tmp_path, epsilon, dominates):
    text = RELUCTANT.replace("records: 12, epsilon: 1000}", "records: 1000000, epsilon: 1000}")
    text = text.replace("epsilon: 0.1}", f"epsilon: {epsilon}}}")
    assert bool(read(tmp_path, text).resolved.dominated) is dominates
