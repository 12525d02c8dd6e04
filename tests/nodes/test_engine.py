"""The engine gives the releases of the mesh, bit for bit: every algorithm, mechanism, schedule, budget."""

from dataclasses import replace

import numpy as np
import pytest

from nodes.consensus import mixed
from nodes.engine import Engine
from nodes.mixing import Mixing
from nodes.privacy.simulated import SimulatedSampler
from streams.local.run import LocalRun, mesh_parts
from streams.mesh_file import build
from tests.support.meshes import changed, loaded
from topology.graphs import erdos_renyi, from_edges, star
from topology.keyed import generator
from topology.weights import metropolis, permutations

MATRIX = [[0, 0.5, 0.25, 0.25], [0.5, 0, 0.25, 0.25], [0.25, 0.25, 0.5, 0], [0.25, 0.25, 0, 0.5]]
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}
CASES = {
    "dpdo-nc": {},
    "dola": {"algorithm": {"name": "dola", "regulariser": 0.1}},
    "gaussian": {"privacy": GAUSSIAN},
    "classic": {"privacy": GAUSSIAN | {"calibration": "classic"}},
    "sphere": {"privacy": {"mechanism": "l2-sphere"}, "slots": {"size": 3}},
    "bisr": {"privacy": {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4}},
    "none": {"privacy": {"mechanism": "none", "gradient_bound": 10}},
    "parameters": {"privacy": {"on": "parameters", "norm": "l2"}},
    "batches": {"slots": {"size": 5}},
    "mahalanobis": {"algorithm": {"mirror_map": {"mahalanobis": [[2, 0.5], [0.5, 1]]}}},
    "diagonal": {
        "algorithm": {
            "mirror_map": {"mahalanobis": [2, 0.5]},
            "constraint": {"box": {"lower": 0, "upper": 1}},
        }
    },
    "entropy": {"algorithm": {"mirror_map": "entropy", "constraint": "simplex"}},
    "on-the-edge": {"algorithm": {"constraint": {"l2-ball": 0.3}}},
    "budget": {"privacy": {"budget": 7}},
    "growing": {"privacy": {"epsilon": {"total": 20, "rounds": 8, "schedule": "growing"}}},
    "directed": {"topology": {"graph": {"directed-edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]}}},
    "switching": {"topology": {"graph": "complete", "switching": 0.5}},
    "cycle": {"topology": {"graph": None, "cycle": ["ring", {"matrix": MATRIX}, "star"]}},
}


def meshed(folder, changes):
    """The mesh file of a case."""
    algorithm = changes.get("algorithm", {})
    tree = changed(**{key: value for key, value in changes.items() if key != "algorithm"})
    tree["mesh"]["algorithm"] |= algorithm
    tree["mesh"]["topology"] = {key: value for key, value in tree["mesh"]["topology"].items() if value}
    return loaded(folder, tree)


def in_memory(file):
    """What a mesh on the memory bus has released after each round, decided and seen: (T, N, ...) each."""
    local = LocalRun(mesh_parts(file))
    local.to_round(file.mesh.rounds)
    local.finish()
    histories = local.recorder.nodes.values()
    releases = np.array([[record.release for record in history.records] for history in histories])
    return (
        releases.swapaxes(0, 1),
        local.recorder.decisions(),
        local.recorder.observations(file.mesh.slots.size),
    )


def engine(file, cls=SimulatedSampler):
    """The engine of a mesh file."""
    names = tuple(sorted(file.mesh.nodes))
    sampler = cls(file.mesh.seed, names)
    return Engine(build.learner(file.mesh, names[0], sampler), build.schedule(file.mesh, file.mesh.seed))


def slots(observations):
    """The slots of the rounds."""
    return (type(observations)(*(part[t] for part in observations)) for t in range(len(observations.labels)))


@pytest.mark.parametrize("case", CASES)
def test_releases_and_decisions_are_those_of_the_mesh(tmp_path, case):
    file = meshed(tmp_path, CASES[case])
    releases, decisions, observations = in_memory(file)
    steps = list(engine(file).steps(slots(observations)))
    assert len(steps) == file.mesh.rounds
    for t, step in enumerate(steps):
        assert step.lesson.release.tobytes() == releases[t].tobytes()
        assert step.decision.tobytes() == np.ascontiguousarray(decisions[t]).tobytes()
    assert steps[-1].releases.tobytes() == releases[-2].tobytes()


def test_other_noise_is_other_releases(tmp_path):
    file = meshed(tmp_path, {})
    releases, _, observations = in_memory(file)
    other = replace(file, mesh=file.mesh.model_copy(update={"seed": 1}))
    steps = list(engine(other).steps(slots(observations)))
    assert steps[0].lesson.release.tobytes() != releases[0].tobytes()


@pytest.mark.parametrize("dimension", [1, 2, 17])
@pytest.mark.parametrize("graph", ["sparse", "star", "directed", "alone"])
def test_every_row_has_the_bits_of_one_node_alone(graph, dimension):
    names = tuple(f"n-{k:02}" for k in range(23))
    graphs = {
        "sparse": lambda: metropolis(erdos_renyi(names, 3, mean_degree=4)),
        "star": lambda: metropolis(star(names)),
        "directed": lambda: permutations(
            from_edges(names, list(zip(names, names[1:] + names[:1], strict=True)), directed=True)
        ),
        "alone": lambda: metropolis(from_edges(names, [])),
    }
    weights = graphs[graph]()
    values = generator("mixing", dimension).normal(size=(len(names), dimension))
    found = Mixing(weights)(values)
    for i, name in enumerate(names):
        row = [
            (names[j], weight, values[j])
            for j, target, weight in zip(
                weights.sources, weights.targets, weights.values.tolist(), strict=True
            )
            if target == i
        ]
        rest = 0.0
        for _, weight, _ in row:
            rest += weight
        assert found[i].tobytes() == mixed([*row, (name, max(0.0, 1.0 - rest), values[i])]).tobytes()
