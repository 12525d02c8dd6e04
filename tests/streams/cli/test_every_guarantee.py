"""Whatever was run before, in whatever order: all places that state a guarantee state the one that is true.

Each sequence says by itself what a record has paid in the end: the sum over the runs that may have learnt
from it, None where one of them protected nothing. No code of the product takes part in that.
"""

import ast
import gzip
import io
import json
import logging
import os
import re
import shutil
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from rich.console import Console

import mirrormesh
from mirrormesh import load, load_collaboration
from streams.bus.bus import Stored
from streams.collaboration.journals import OwnerSpend
from streams.ledger import promises_of
from streams.live.hosted_node import HostedNode
from streams.live.spend import NodeOptions
from streams.state.spends_topic import SpendsTopic, Topic
from streams.tools.up.programs import Options
from streams.tools.up.up import _conclude

SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "d"}}
TIMED = SCHEMA | {"timestamp": "at"}
FILES = {"A": 0, "B": 100, "C": 200}
"""Files of other records; in each is the first one's time or label."""


def records(first, count=12):
    return "x,y,d,at\n" + "".join(f"1,0,{first + k},{first + k}\n" for k in range(count))


BROKERS = {side: {"servers": "127.0.0.1:1"} for side in ("mesh", "data")} | {"trust_broker": True}
"""Nobody asks them here."""


class SpendsLog:
    """A topic of spends on a broker: the newest line of each key."""

    def __init__(self, topics):
        topic = topics.records
        self.data, self.records = {topic: Topic(topic, f"id of {topic}", "cluster")}, {}

    def span(self, topic):
        return 0, len(self.records)

    def stored(self, firsts):
        lines = [Stored(offset, line, 0.0, key) for offset, (key, line) in enumerate(self.records.items())]
        return dict.fromkeys(firsts, lines)

    def send(self, topic, line, key):
        self.records[key] = line

    def flush(self, seconds):
        return True


class Bench:
    """A folder in which commands are called one after the other, and what they state."""

    def __init__(self, call, folder, log):
        self.call, self.folder, self.log = call, folder, log
        self.path, self.state = None, "state"
        for name, first in FILES.items():
            (folder / name).write_text(records(first))

    def source(self, spec, *, by_time=False):
        """`A`, or `A/2.1`: part 1 of 2 of the file A; `A~`: in an order that the seed gives."""
        name, _, part = spec.rstrip("~").partition("/")
        source = {"kind": "csv", "path": name, "schema": TIMED if by_time else SCHEMA}
        if part:
            every, offset = map(int, part.split("."))
            source["take"] = {"every": every, "offset": offset}
        return source | ({"shuffle": True} if spec.endswith("~") else {})

    def run(
        self,
        run,
        readers,
        *options,
        mesh="m",
        by_time=False,
        epsilon=1,
        budget=None,
        rounds=3,
        code=0,
        **privacy,
    ):
        """`mirrormesh run` of nodes that read these; by default with Laplace noise of epsilon 1."""
        protects = {"mechanism": "laplace", "epsilon": epsilon, "noise": "exact"} | privacy
        if protects["mechanism"] == "none":
            protects = {"mechanism": "none"}
        if budget is not None:
            protects["budget"] = budget
        size = len(readers)
        slots = {"by": "time", "size": 1, "period": 1, "start": 0} if by_time else {"by": "count", "size": 1}
        tree = {
            "mesh": {
                "name": mesh,
                "run": run,
                "nodes": list(readers),
                "dimension": 2,
                "algorithm": {
                    "name": "dpdo-nc",
                    "constraint": {"l1-ball": 3},
                    "step_size": {"rule": "inverse-sqrt", "a": 0.5},
                },
                "loss": "squared",
                "slots": slots,
                "privacy": protects | {"gradient_bound": 0.5},
                "topology": {
                    "graph": {"matrix": [[float(i == j) for j in range(size)] for i in range(size)]}
                },
                "rounds": rounds,
            },
            "nodes": {name: {"source": self.source(spec, by_time=by_time)} for name, spec in readers.items()},
        }
        self._called(tree, options, code)

    def ask(self, run, owners, *options, epsilon=1, sharing=1, simulated=False, code=0):
        """`mirrormesh run` of a collaboration whose owners read these."""
        tree = {
            "mesh": {
                "kind": "collaboration",
                "name": "lending",
                "run": run,
                "learner": "l",
                "owners": {name: {"records": 12, "epsilon": epsilon} for name in owners},
                "dimension": 2,
                "loss": "squared",
                "constraint": {"l2-ball": 5},
                "algorithm": {"name": "averaged", "step": 0.5},
                "queries": 2,
                "gradient_bound": 1,
                "sharing": sharing,
                "noise": {"simulated": 3} if simulated else "exact",
            },
            "owners": {name: {"source": self.source(spec)} for name, spec in owners.items()},
        }
        self._called(tree, options, code)

    def _called(self, tree, options, code):
        self.path = self.folder / "mesh.yaml"
        self.path.write_text(yaml.safe_dump(tree))
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.outcome = self.call("run", self.path, "--state", self.state, "--output", "out", *options)
        assert self.outcome.code == code, self.outcome.err

    def forget(self, *patterns):
        """Delete files of the state folder."""
        for pattern in patterns:
            for path in (self.folder / self.state).glob(pattern):
                path.unlink()

    def stated(self, name):
        """What each place states of a node or owner, by the place."""
        tree = yaml.safe_load(self.path.read_text())
        file = load(self.path) if "nodes" in tree else load_collaboration(self.path)
        one = "owners" if "owners" in tree else "nodes"
        found = {"run": of_lines(self.outcome.out, name, file)}
        summary = json.loads((self.folder / "out" / "summary.json").read_text())[one]
        row = summary[name] if one == "owners" else next(row for row in summary if row["name"] == name)
        found["summary.json"] = of_sentence(row["guarantee"])
        found["summary.json, number"] = row["epsilon_of_a_record"]
        model = json.loads((self.folder / "out" / "model.json").read_text())["guarantee"]
        found["model.json"] = of_sentence(model["nodes"][name])
        node = ["--node", name] if one == "nodes" else []
        made = self.call("model", self.path, "--state", self.state, *node, "--output", "made")
        assert made.code == 0, made.err
        later = json.loads((self.folder / "made.json").read_text())["guarantee"]
        found["model"] = of_sentence(later["nodes"][name])
        everyone = [of_sentence(sentence) for sentence in model["nodes"].values()]
        worst = None if None in everyone else max(everyone)
        for guarantee in (model, later):
            assert guarantee["epsilon"] == (None if worst is None else pytest.approx(worst))
        budget = self.call("budget", self.path, name, "--state", self.state)
        (line,) = (line for line in budget.out.splitlines() if line.startswith("guarantee:"))
        found["budget"] = of_sentence(line)
        (account,) = json.loads(self.call("budget", self.path, name, "--state", self.state, "--json").out)[
            one
        ]
        found["budget, number"] = account["all_runs"]["epsilon"]
        found["Python"] = of_sentence(mirrormesh.budget(file, name, self.folder / self.state).guarantee)
        if one == "nodes":
            on_broker = self.folder / "on-broker.yaml"
            on_broker.write_text(yaml.safe_dump(tree | {"brokers": BROKERS}))
            file = load(on_broker)
            found["up"] = of_lines(self.of_up(file), name, file)
            found["log"] = of_lines(self.of_process(file, name), name, file)
        else:
            found["log"] = self.of_owner(file, name)
        return found

    def of_owner(self, file, name):
        """What an owner's process knows as it starts in the state folder, to log it: it answers nothing."""
        spend = OwnerSpend(file, name, self.folder / self.state)
        with spend.journal("0" * 32) as journal:
            spend.begin(journal)
            known = spend.known()
            spend.end(journal)
        return of_sentence(promises_of(file, {name: known})[name].sentence)

    def of_up(self, file):
        """What `up` prints at its end in the state folder."""
        console = Console(file=io.StringIO(), width=10_000)
        _conclude(file, Options(state=self.folder / self.state), {}, lambda *_: None, console)
        return console.file.getvalue()

    def of_process(self, file, name):
        """What a node's process logs as it starts in the state folder: it ends before it learns."""
        node = HostedNode(file, name, NodeOptions(self.folder / self.state))
        self.log.clear()
        with ExitStack() as closing, self.log.at_level(logging.INFO, f"mirrormesh.node.{name}"):
            node.open(closing)
            topic = SpendsTopic(SpendsLog(node.topics), node.topics)
            node._known = node._spend.begin(node.journal, topic)
            node.start = SimpleNamespace(records=node.journal.records())
            node.say()
            node._spend.end(node.journal)
        return "\n".join(self.log.messages)


def of_sentence(text):
    """The last epsilon that a guarantee states; None where nothing is protected."""
    if "Nothing in" in text or "nothing is known to be protected" in text:
        return None
    return float(Fraction(re.findall(r"is protected with epsilon = ([\d./]+)", text)[-1]))


def of_lines(out, name, file):
    """The same, of the line of a command that is about this reader."""
    for line in out.splitlines():
        first = re.match(rf"(?:Each record of|Nothing in) {file.member} (\S+)'s ", line)
        others = re.search(r"The same holds for ([^.]*)\.", line)
        if first and name in [first[1], *(others[1].split(", ") if others else [])]:
            return of_sentence(line)
    raise AssertionError(f"nothing is said of {name}")


def again(bench, readers, **more):
    bench.run("run-1", readers, **more)
    bench.run("run-2", readers, **more)


def renamed(bench):
    bench.run("run-1", {"a": "A"})
    bench.run("run-2", {"c": "A"})


def renamed_three_times(bench):
    for number, name in enumerate("acde"):
        bench.run(f"run-{number}", {name: "A"}, budget=3)


def renamed_in_one_run(bench):
    bench.run("run-1", {"a": "A"})
    bench.run("run-1", {"c": "A"})


def after(*steps):
    def sequence(bench):
        for step in steps:
            step(bench)

    return sequence


def run(*arguments, **more):
    return lambda bench: bench.run(*arguments, **more)


def ask(*arguments, **more):
    return lambda bench: bench.ask(*arguments, **more)


def do(change):
    return lambda bench: change(bench.folder)


def forget(*patterns):
    return lambda bench: bench.forget(*patterns)


def in_state(name):
    return lambda bench: setattr(bench, "state", name)


def moved(folder):
    """The daily rewrite: other bytes come under the old name."""
    (folder / "new").write_text((folder / "A").read_text() + "1,0,77,77\n")
    (folder / "new").replace(folder / "A")


def renamed_file(folder):
    (folder / "A").rename(folder / "A2")


def rewritten(folder):
    """The same lines in another order, under the same name and inode."""
    head, *lines = (folder / "A").read_text().splitlines(keepends=True)
    (folder / "A").write_text("".join([head, *reversed(lines)]))


def copied_state(bench):
    shutil.copytree(bench.folder / "state", bench.folder / "copy")
    bench.state = "copy"


def packed(folder):
    (folder / "A.gz").write_bytes(gzip.compress((folder / "A").read_bytes()))


FOUR = {name: f"A/4.{part}" for part, name in enumerate("abcd")}
BARE = {"mechanism": "none"}
SEEDED = {"noise": "simulated"}
ONE, TWO = run("run-1", {"a": "A"}), run("run-2", {"a": "A"})

SEQUENCES = {
    # one reader, one file
    "one run": (ONE, {"a": 1}),
    "a run that goes on": (after(ONE, run("run-1", {"a": "A"}, rounds=5)), {"a": 1}),
    "a new run": (after(ONE, TWO), {"a": 2}),
    "three runs, three prices": (
        after(*(run(f"run-{k}", {"a": "A"}, epsilon=k) for k in (1, 2, 3))),
        {"a": 6},
    ),
    "the first run again": (after(ONE, TWO, ONE), {"a": 3}),
    "two meshes in one folder": (after(ONE, run("one", {"a": "A"}, mesh="n")), {"a": 2}),
    "another order": (after(ONE, run("run-2", {"a": "A~"})), {"a": 2}),
    "slots by time": (after(*(run(f"run-{k}", {"a": "A"}, by_time=True) for k in (1, 2))), {"a": 2}),
    # names
    "a renamed node": (renamed, {"c": 2}),
    "renamed three times, with a budget": (renamed_three_times, {"e": 4}),
    "renamed within one run": (renamed_in_one_run, {"c": 2}),
    "names swapped": (
        after(run("run-1", {"a": "A", "b": "B"}), run("run-2", {"a": "B", "b": "A"})),
        {"a": 3},
    ),
    "a name that read another file": (after(ONE, run("run-2", {"a": "B"})), {"a": 2}),
    "another name and another file": (after(ONE, run("run-2", {"c": "B"})), {"c": 1}),
    # files
    "a file that was rewritten": (after(ONE, do(moved), TWO), {"a": 2}),
    "a renamed file, by a renamed node": (
        after(ONE, do(renamed_file), run("run-2", {"c": "A2"})),
        {"c": 2},
    ),
    "a copy, by a renamed node": (
        after(ONE, do(lambda folder: shutil.copy(folder / "A", folder / "A2")), run("run-2", {"c": "A2"})),
        {"c": 2},
    ),
    "a packed copy, by a renamed node": (after(ONE, do(packed), run("run-2", {"c": "A.gz"})), {"c": 2}),
    "a hard link": (
        after(ONE, do(lambda folder: os.link(folder / "A", folder / "A2")), run("run-2", {"c": "A2"})),
        {"c": 2},
    ),
    "a symbolic link": (
        after(ONE, do(lambda folder: (folder / "A2").symlink_to("A")), run("run-2", {"c": "A2"})),
        {"c": 2},
    ),
    # parts
    "four parts of one file": (run("run-1", FOUR), dict.fromkeys("abcd", 1)),
    "four parts, twice": (lambda bench: again(bench, FOUR), dict.fromkeys("abcd", 2)),
    "four parts that change places": (
        after(run("run-1", FOUR), run("run-2", dict(zip("bcda", FOUR.values(), strict=True)))),
        dict.fromkeys("abcd", 2),
    ),
    "four parts by content": (
        after(*(run(f"run-{k}", FOUR, by_time=True) for k in (1, 2))),
        dict.fromkeys("abcd", 2),
    ),
    "other parts of a file that was rewritten": (
        after(run("run-1", {"a": "A/2.0"}), do(rewritten), run("run-2", {"c": "A/2.1"})),
        {"c": 2},
    ),
    "another part of the same file": (
        after(run("run-1", {"a": "A/2.0"}), run("run-2", {"c": "A/2.1"})),
        {"c": 1},
    ),
    "parts of other sizes": (after(run("run-1", {"a": "A/2.0"}), run("run-2", {"c": "A/3.1"})), {"c": 2}),
    "two nodes, one file": (run("run-1", {"a": "A", "b": "A"}), {"a": 2, "b": 2}),
    "two nodes, one file, twice": (lambda bench: again(bench, {"a": "A", "b": "A"}), {"a": 4, "b": 4}),
    # what protects nothing
    "without noise before": (after(run("run-1", {"a": "A"}, **BARE), TWO), {"a": None}),
    "simulated before": (after(run("run-1", {"a": "A"}, **SEEDED), TWO), {"a": None}),
    "without noise before, by another name": (
        after(run("run-1", {"c": "A"}, **BARE), TWO),
        {"a": None},
    ),
    "without noise now": (after(ONE, run("run-2", {"a": "A"}, **BARE)), {"a": None}),
    # what is deleted
    "journals deleted": (after(ONE, forget("*.journal*"), ONE), {"a": 2}),
    "spends deleted": (after(ONE, forget("*.spends"), TWO), {"a": 2}),
    "spends deleted, and renamed": (after(ONE, forget("*.spends"), run("run-2", {"c": "A"})), {"c": 2}),
    "journals and spends deleted, order kept": (after(ONE, forget("*.journal*", "*.spends"), TWO), {"a": 2}),
    "journals and spends deleted, and renamed": (
        after(ONE, forget("*.journal*", "*.spends"), run("run-2", {"c": "A"})),
        {"c": 2},
    ),
    "a folder copied": (after(ONE, copied_state, ONE), {"a": 2}),
    "another folder knows nothing": (after(ONE, in_state("other"), TWO), {"a": 1}),
    # the operator's word
    "other data": (after(ONE, run("run-2", {"a": "B"}, "--other-data")), {"a": 1}),
    "other data, then again": (
        after(ONE, run("run-2", {"a": "B"}, "--other-data"), run("run-3", {"a": "B"})),
        {"a": 2},
    ),
    "other data, then the first": (
        after(ONE, run("run-2", {"a": "B"}, "--other-data"), run("run-3", {"a": "A"})),
        {"a": 3},
    ),
    # owners
    "an owner": (ask("one", {"z": "A", "y": "B"}), {"z": 1, "y": 1}),
    "an owner's second run": (after(ask("one", {"z": "A"}), ask("two", {"z": "A"})), {"z": 2}),
    "a renamed owner": (after(ask("one", {"y": "A"}), ask("two", {"z": "A"})), {"z": 2}),
    "two owners of one file": (ask("one", {"z": "A", "y": "A"}), {"z": 2, "y": 2}),
    "two owners of one file who share": (ask("one", {"z": "A", "y": "A"}, sharing=2), {"z": 1, "y": 1}),
    "an owner whose noise was simulated": (
        after(ask("one", {"z": "A"}, simulated=True), ask("two", {"z": "A"})),
        {"z": None},
    ),
    "a node, then an owner": (after(ONE, ask("one", {"z": "A"})), {"z": 2}),
    "an owner, then a node": (after(ask("one", {"z": "A"}), run("run-1", {"a": "A"})), {"a": 2}),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_all_places_state_what_is_true(call, tmp_path, caplog, name):
    sequence, expected = SEQUENCES[name]
    bench = Bench(call, tmp_path, caplog)
    sequence(bench)
    for reader, epsilon in expected.items():
        stated = bench.stated(reader)
        assert stated == dict.fromkeys(stated, epsilon), reader
        assert len(stated) == (9 if "kind: collaboration" in bench.path.read_text() else 10)


def test_a_deleted_journal_and_spends_give_no_budget_back(call, tmp_path, caplog):
    bench = Bench(call, tmp_path, caplog)
    bench.run("run-1", {"a": "A"}, budget=3)
    bench.forget("*.journal*", "*.spends")
    bench.run("run-1", {"a": "A"}, budget=3, code=2)
    assert (
        "nobody knows what it has spent of its budget, so the mesh needs a new run name" in bench.outcome.err
    )
    assert len(bench.outcome.err.splitlines()) == 1


def test_what_another_reader_of_the_folder_spent_cannot_be_read_and_nothing_is_promised(
    call, tmp_path, caplog
):
    bench = Bench(call, tmp_path, caplog)
    bench.run("run-1", {"a": "A"})
    (tmp_path / "state" / "a.spends").write_text("damaged\n")
    bench.run("run-2", {"c": "B"})
    assert set(bench.stated("c").values()) == {None}
    bench.run("run-2", {"a": "A"}, code=2)
    assert "a.spends: line 1 is not" in bench.outcome.err


def test_one_module_makes_the_sentence_of_a_guarantee():
    roots = ("streams", "mirrormesh", "experiments")
    calls = {
        str(path)
        for root in roots
        for path in Path(root).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sentence"
    }
    assert calls == {"streams/ledger.py"}
