"""A whole run in memory, everything said that can be said: nothing of a record gets out of its node."""

import json
import logging
import struct
import traceback
import warnings
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import generate_latest

from nodes.checks import RANGE
from nodes.losses.losses import Squared
from nodes.machine.events import Scored
from nodes.privacy.exact import ExactSampler, SamplerError
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.mechanism import Privatised
from nodes.privacy.reveal import opened
from nodes.values import Release
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.state.folder import JournalError
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.metrics import metrics
from tests.support.oracles.canaries import Canaries

ROUNDS = 24
SCHEMA = {
    "features": {"x": "number", "y": {"bounds": [0, 1]}},
    "label": {"column": "z"},
    "truth": ["u", "v"],
}
EXACT = {"epsilon": 1, "gradient_bound": 0.5, "noise": "exact"}
MECHANISMS = {
    "laplace": EXACT,
    "gaussian": EXACT | {"mechanism": "gaussian", "delta": 1e-6},
    "l2-sphere": EXACT | {"mechanism": "l2-sphere"},
    "gaussian-bisr": EXACT | {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4},
}


class Sharp(Canaries):
    """Canaries with 12 digits: here much is printed that is as long, and 7 would be met by chance."""

    def number(self):
        made = self._random.uniform(0.1, 1.0)
        self.add(made)
        return made

    def add(self, number):
        """Look for that number too."""
        text = repr(number)[:14]
        self.forms |= {text.encode(): text, struct.pack("<d", number): text, struct.pack(">d", number): text}


def record(canaries, number):
    """A line full of canaries; every fourth cannot be decoded."""
    if number % 8 == 0:
        return f"{canaries.word()}{{"
    numbers = {column: canaries.number() for column in "xyzuv"}
    good = numbers | {canaries.word(): 1}
    bad = {"x": canaries.word(), "z": canaries.number(), "why": canaries.word()}
    return json.dumps(bad if number % 4 == 0 else good)


class Angry(Squared):
    """A user's own loss: it cannot stand some records, and shouts them."""

    def gradients(self, point, observations):
        if (observations.labels > 0.7).any():
            raise ValueError(f"what is this? {observations}")
        return super().gradients(point, observations)


class Watched:
    """A run of three nodes, and all that it says: `said` by channel, in bytes."""

    def __init__(self, folder, caplog, privacy, *, loss=Squared, mechanism=None, journal=None):
        self.canaries, self.said, self._caplog = Sharp(0), {"reports": b""}, caplog
        tree = changed(nodes=list("abc"), rounds=ROUNDS, loss="squared", privacy=privacy)
        tree["nodes"] = {name: {"source": self._source(folder, name)} for name in "abc"}
        self.state = folder / "state"
        self.state.mkdir()
        parts = mesh_parts(loaded(folder, tree))
        nodes = {}
        for name, node in parts.nodes.items():
            learner = replace(node.learner, loss=loss())
            if mechanism is not None:
                learner = replace(learner, mechanism=mechanism(learner.mechanism))
            nodes[name] = replace(node, learner=learner)
        parts = replace(parts, nodes=nodes)
        self.figures = {
            name: metrics(node.learner, sources="abc", truth=True) for name, node in nodes.items()
        }
        self.mesh = MemoryMesh(parts, self.report, state=self.state)
        if journal is not None:
            journal(self.mesh.nodes["a"].journal)

    def _source(self, folder, name):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(record(self.canaries, number) + "\n" for number in range(1, ROUNDS + 1)))
        return {"kind": "json-lines", "path": str(path), "schema": SCHEMA}

    def report(self, name, report):
        self.figures[name].report(report)
        self.figures[name].catch_up()
        self.said["reports"] += f"{report!r} {report}\n".encode()
        if isinstance(report, Scored):  # what the record has become, before the noise
            for number in opened(report.gradient).tolist():
                if number:
                    self.canaries.add(number)

    def run(self):
        """Run to the end, or to an error; keep what was said."""
        try:
            self.mesh.run()
            assert self.mesh.done
        except (SamplerError, JournalError) as error:
            self.said["exception"] = "".join(traceback.format_exception(error)).encode()
        self.said["journals while open"] = self._journals()
        self.mesh.close()
        self.said["journals"] = self._journals()
        logged = [f"{entry.getMessage()} {entry.args} {entry.exc_text}" for entry in self._caplog.records]
        self.said["log"] = "\n".join([self._caplog.text, *logged]).encode()
        shared = [generate_latest(figures.shared.collected) for figures in self.figures.values()]
        self.said["shared metrics"] = b"\n".join(shared)
        bus = self.mesh.bus
        self.said |= {topic: b"\0".join(bus.read(topic, 0)) for topic in bus.topics}
        return self

    def _journals(self):
        return b"\0".join(path.read_bytes() for path in sorted(self.state.iterdir()))

    @property
    def leaks(self):
        """The channels that hold canaries."""
        return {channel for channel, said in self.said.items() if self.canaries.among(said)}


@pytest.fixture
def watched(tmp_path, caplog):
    """Start a run at debug level, with every digit of every array."""
    for logger in ("", "mirrormesh"):  # a test before may have made ours quieter
        caplog.set_level(logging.DEBUG, logger)
    with np.printoptions(precision=17, threshold=10**6), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield lambda privacy, **planted: Watched(tmp_path, caplog, privacy, **planted)


@pytest.mark.parametrize("loss", [Squared, Angry])
@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_that_a_run_says_holds_a_record(watched, name, loss):
    run = watched(MECHANISMS[name], loss=loss).run()
    assert len(run.canaries.forms) > 3 * 3 * ROUNDS  # there is much to be found,
    edges = [said for topic, said in run.said.items() if ".edge." in topic]
    assert len(edges) == 6
    assert min(map(len, edges)) > ROUNDS * 16  # and where to find it
    assert len(run.said["journals"]) > 3 * ROUNDS * 16
    assert run.said["reports"].count(b"Scored") == 2 * 3 * ROUNDS
    assert b"mirrormesh_round" in run.said["shared metrics"]
    assert all(run.said[f"tracking.run-1.deadletter.{node}"] == b"" for node in "abc")
    assert run.leaks == set()


class Refusing(ExactSampler):
    """It fails on the eighth draw, as values are too large for it."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def _noisy(self, draw, values, scale):
        self.seen.append(values.tolist())
        failing = len(self.seen) >= 8  # of a record that is sound
        return super()._noisy(draw, values + (RANGE if failing else 0), scale)


def test_an_exact_sampler_that_fails_says_nothing(watched):
    seen = []
    run = watched(EXACT, mechanism=lambda made: replace(made, sampler=Refusing(seen))).run()
    assert min(map(abs, seen[-1])) > 10**6
    for number in seen[-1]:
        run.canaries.forms[str(number).encode()] = "what was to be noised"
    assert b"SamplerError" in run.said["exception"]
    assert run.leaks == set()


def test_a_journal_that_cannot_be_written_says_nothing(watched):
    def full(journal):
        journal._connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON records WHEN NEW.round > 9 "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )

    run = watched(EXACT, journal=full).run()
    assert b"JournalError" in run.said["exception"]
    assert run.leaks == set()


# ------------------------------------------------------------------------------- planted: they are found


class Logging(Squared):
    """The fault: a loss that logs."""

    def gradients(self, point, observations):
        logging.getLogger("mirrormesh.node").debug("gradient of %s", observations)
        return super().gradients(point, observations)


class Leaky(LaplaceGradient):
    """The fault: once no noise."""

    def privatise(self, round, gradients, update, secret=None):
        made = super().privatise(round, gradients, update)
        rows = np.nan_to_num(opened(gradients)).sum(-2)
        return Privatised(Release(rows), made.clipped, made.broken) if round == ROUNDS - 2 else made


def leaky(made):
    return Leaky(made.theta, made.epsilon, made.batch_size, made.dimension, made.sampler)


def test_a_log_line_with_a_record_is_found(watched):
    assert watched(EXACT, loss=Logging).run().leaks == {"log"}


def test_a_release_without_noise_is_found_wherever_it_goes(watched):
    leaks = watched(EXACT, mechanism=leaky).run().leaks
    edges = {f"tracking.run-1.edge.{a}.{b}" for a in "abc" for b in "abc" if a != b}
    assert leaks == {"reports", "journals", "journals while open", *edges}


@pytest.mark.parametrize("way", ["repr", "<d", ">d"])
def test_a_canary_is_found_in_every_form(way):
    canaries = Sharp(1)
    number = canaries.number()
    assert canaries.among(
        b"..." + (repr(number).encode() if way == "repr" else struct.pack(way, number)) + b"..."
    )
    assert not canaries.among(repr(number + 1e-3).encode())
