"""A model leaves a mesh on a broker: from its public topics, and from a node's journal."""

import json

import numpy as np
import pytest

from nodes.values import averaged
from streams.bus.bus import BusError
from streams.bus.provision import provision
from streams.local.mesh import MemoryMesh
from streams.mesh.file import load
from streams.mesh.model_file import read_model
from streams.tools.model.writing import journal_model, public_model
from tests.support.meshes.files import ignore, planned_to_close
from tests.support.meshes.on_broker import decisions, small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 40


def test_a_mesh_and_its_nodes_give_their_models(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS, horizon=16)
    with LiveMesh(path) as mesh:
        a, *_ = names = list(mesh.file.mesh.nodes)
        mesh.feed_all()
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: len(decisions(broker.address, mesh.file.data_topics(a))) >= 10)
        mesh.processes[a].kill()
        mesh.node(a)
        mesh.finish()
        file = mesh.file
        done = Process(tmp_path, "model", "model", path, "--output", tmp_path / "m")
        assert done.ends() == 0, done.log
    in_memory = MemoryMesh(planned_to_close(file), ignore)
    in_memory.run()
    in_memory.close()
    for name in names:
        own = journal_model(file, tmp_path / "state", name)
        record = in_memory.nodes[name].journal.records()[-1]
        assert own.rounds == record.average.rounds == ROUNDS
        assert own.average == tuple(record.average.mean.tolist())
        assert own.newest == tuple(file.resolved.algorithm.contain(record.release).tolist())
    public = read_model(tmp_path / "m.npz")
    assert public == read_model(tmp_path / "m.json")
    newest, average, rounds = expected(file, path, names)
    np.testing.assert_allclose(public.newest, newest, rtol=1e-13)
    np.testing.assert_allclose(public.average, average, rtol=1e-13)
    assert (public.rounds, public.nodes) == (rounds, 3)
    assert set(public.guarantee.nodes) == set(names)
    assert public.guarantee.epsilon is None
    assert "the broker also carries the data" in json.dumps(public.guarantee.nodes)


def expected(file, path, names):
    """The model by its definition, from what the same mesh releases in memory."""
    algorithm, average = file.resolved.algorithm, None
    told = {key: np.frombuffer(value) for key, value in released_in_memory(path).items()}
    rounds = range(1, ROUNDS + 1)  # of learning
    for round in rounds:
        average = averaged(average, algorithm.contain(np.mean([told[name, round] for name in names], 0)))
    newest = algorithm.contain(np.mean([told[name, ROUNDS + 1] for name in names], 0))
    return newest, average.mean, len(rounds)


def test_before_the_first_release_there_is_none(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address)
    provision(load(path))
    with pytest.raises(BusError, match="no edge holds a release yet"):
        public_model(load(path))
    done = Process(tmp_path, "model", "model", path, "--output", tmp_path / "m")
    assert done.ends() == 1
    assert done.log.count("\n") == 1
    assert not (tmp_path / "m.json").exists()
