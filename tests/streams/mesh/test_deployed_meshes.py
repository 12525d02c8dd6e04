"""The example meshes: they load, say what they mean, and their data are there."""

import gzip
from itertools import islice

import numpy as np
import pytest

from experiments import experts
from streams.collaboration.passes import passes
from streams.mesh.file import MeshFileError, load, load_any
from streams.mesh.mesh import Mesh
from streams.records.sources import held_out, open_source
from tests.support.meshes.examples import COLLABORATIONS, MESHES, NAMES, example

EVERY = {
    "emergency-visits",
    "experts",
    "forest-cover",
    "income",
    "income-gaussian",
    "money-fx",
    "tracking",
    "tracking-mahalanobis",
    "tracking-moving",
    "tracking-paper",
    "tracking-switching",
    "uwb",
}


def test_every_form_of_the_literature_has_its_example():
    assert set(NAMES) >= EVERY
    assert "lending" in COLLABORATIONS


@pytest.mark.parametrize("name", NAMES)
def test_an_example_loads_and_every_node_learns_with_real_noise(name, tmp_path, monkeypatch):
    file = load(example(name, tmp_path, monkeypatch))
    mesh = file.mesh
    assert mesh.name == name
    assert set(file.nodes) == set(mesh.nodes)
    schedule = Mesh(mesh).schedule
    members = tuple(sorted(mesh.nodes))
    np.testing.assert_allclose(schedule.weights(1, members).dense().sum(0), 1, atol=1e-9)
    for node in mesh.nodes:
        assert Mesh(mesh).node(node).guarantee.protects
        assert Mesh(mesh).node(node).learner.algorithm.dimension == mesh.release_dimension
        source = open_source(file, node, mesh.seed)
        records = list(islice(source.records, 20))
        assert all(source.decoder.decode(record.value) is not None for record in records)


@pytest.mark.parametrize("name", NAMES)
def test_in_an_example_no_noise_shortens_a_clip_and_none_is_most_of_all(name, tmp_path, monkeypatch):
    """So no example runs otherwise than before clips went by noise."""
    mesh = load(example(name, tmp_path, monkeypatch)).resolved
    for node in mesh.settings.nodes:
        assert mesh.node(node).privacy == mesh.settings.privacy_of(node) == mesh.settings.privacy
    assert mesh.cautions == []


@pytest.mark.parametrize("name", COLLABORATIONS)
def test_in_an_example_owners_weigh_by_their_records_and_no_noise_is_nearly_all(name):
    whole = load_any(MESHES / f"{name}.yaml").resolved
    assert whole.influence == {owner: float(n) for owner, n in whole.records.items()}
    assert whole.dominated == []


@pytest.mark.parametrize("name", COLLABORATIONS)
def test_an_example_of_a_collaboration_loads_and_every_owner_answers_with_real_noise(name):
    file = load_any(MESHES / f"{name}.yaml")
    assert file.mesh.name == name
    assert set(file.owners) == set(file.mesh.owners)
    for owner in file.mesh.owners:
        assert file.resolved.guarantee(owner).protects
        assert passes(file, owner).fixed().records == file.mesh.owners[owner].records


def test_the_papers_example_is_as_printed():
    mesh = load(MESHES / "tracking-paper.yaml").mesh
    algorithm, schedule = Mesh(mesh).algorithm, Mesh(mesh).schedule
    assert [algorithm.step_size(t) for t in (1, 4)] == [1 / 6, 1 / 12]
    assert algorithm.start.tolist() == [0, 0]
    assert (mesh.rounds, mesh.privacy.on, mesh.privacy.epsilon) == (500, "parameters", 1)
    eye, there = np.eye(6), tuple(mesh.nodes)
    dense = [schedule.weights(t, there).dense() for t in (1, 2, 3, 4)]
    np.testing.assert_allclose(dense[0], (eye + np.roll(eye, 1, 0)) / 2, atol=1e-15)
    np.testing.assert_allclose(dense[1], (1 - eye) / 5, atol=1e-15)
    np.testing.assert_allclose(dense[2], np.kron(np.ones((3, 3)), np.eye(2)) / 3, atol=1e-15)
    np.testing.assert_array_equal(dense[3], dense[0])


def test_the_four_banks_share_the_training_rows_in_one_pass():
    file = load(MESHES / "income.yaml", {})
    mesh = file.mesh
    parts = []
    for node in mesh.nodes:
        source = open_source(file, node, mesh.seed)
        parts.append([record.value for record in source.records])
    assert sum(map(len, parts)) == 32_561
    assert mesh.rounds * mesh.slots.size == min(map(len, parts))
    labels = [source.decoder.decode(value)[1] for value in parts[-1]]
    assert 0.2 < np.mean(np.array(labels) > 0) < 0.28  # 24.1 % of all: a shuffle, so every bank has its share


def test_the_four_districts_share_the_plots_in_one_pass_and_every_kind_is_there():
    file = load(MESHES / "forest-cover.yaml", {})
    decoded = []
    for node in file.mesh.nodes:
        source = open_source(file, node, file.mesh.seed)
        decoded.append([source.decoder.decode(record.value) for record in source.records])
    assert list(map(len, decoded)) == [file.mesh.rounds * file.mesh.slots.size] * 4
    test_features, test_labels = held_out(file)
    features = np.concatenate([[row for row, _ in node] for node in decoded] + [test_features])
    labels = np.concatenate([[label for _, label in node] for node in decoded])
    assert set(labels) == set(range(7))
    assert np.bincount(test_labels.astype(int)).tolist() == [1460, 1935, 239, 21, 62, 137, 146]
    assert features.shape == (16_000, 55)
    lengths = np.sqrt((features**2).sum(-1))
    np.testing.assert_allclose(lengths, 1, atol=1e-12)
    one_hot = features[:, 10:54] > 0
    assert (one_hot[:, :4].sum(-1) == 1).all()
    assert (one_hot[:, 4:].sum(-1) == 1).all()


def test_the_experts_losses_are_what_the_script_makes_of_adult():
    assert gzip.decompress(experts.OUTPUT.read_bytes()) == experts.losses()
    assert experts.OUTPUT == MESHES / "experts" / "losses.csv.gz"


def test_every_held_out_row_is_decoded():
    features, labels = held_out(load(MESHES / "income.yaml", {}))
    assert features.shape == (16_281, 48)
    assert (labels > 0).sum() == 3_846
    assert np.sqrt((features**2).sum(-1)).max() <= 1 + 1e-12


def test_the_texts_are_shared_in_one_pass_and_without_them_a_line_says_what_to_set(tmp_path, monkeypatch):
    file = load(example("money-fx", tmp_path, monkeypatch))
    parts = [sum(1 for _ in open_source(file, node, 0).records) for node in file.mesh.nodes]
    assert sum(parts) == 7_770
    assert file.mesh.rounds == min(parts) // file.mesh.slots.size
    features, _ = held_out(file)
    assert features.shape == (3_299, 8_315)
    with pytest.raises(MeshFileError, match=r"MIRRORMESH_DATA: must be set .*the same in .*held_out"):
        load(MESHES / "money-fx.yaml", {})
