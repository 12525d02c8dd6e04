"""Runs the code blocks of a page in order, as a reader would who types them into one empty folder.

Python runs, YAML is loaded, and of a shell block every command of ours is parsed by our own command line, and
run where it ends by itself. A first line `# bank.yaml` names the file that a reader saves a block as; Python
that is saved is compiled, and run by a line of a shell block.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from streams.cli import main
from streams.cli.command_line import app
from streams.mesh.file import load_any
from streams.mesh.settings.brokers import CommonBrokers
from streams.mesh.settings.files import read_yaml as yaml_tree
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import HeldOutSettings, NodeSettings, TopicSettings
from streams.mesh.settings.schema import SchemaSettings
from tests.support.published.pages import ROOT

_PASSWORDS = ("MESH_PASSWORD", "DATA_PASSWORD", "REGISTRY_PASSWORD")
ENVIRONMENT = dict.fromkeys(_PASSWORDS, "secret") | {"DATA": "data"}
ENDS = (
    "init",
    "check",
    "plan",
    "run",
    "tune",
    "predict",
    "audit mechanism",
    "audit person",
    "export",
    "forecast",
    "simulate",
    "key",
    "model lending.yaml --own",
)
"""Commands that end by themselves and need nothing outside."""
ON_KAFKA = ("up", "watch", "budget", "model")
"""Commands that end by themselves where a broker is: the tutorial's, in tests/kafka/test_tutorial.py."""
ON_USERS = (
    "mirrormesh provision mesh.yaml --only mesh --dry-run",
    "mirrormesh provision mesh.yaml --only mesh",
    "mirrormesh provision mesh.yaml --only data",
    "mirrormesh provision mesh.yaml --only mesh --users --output passwords --dry-run",
    "mirrormesh provision mesh.yaml --only mesh --users --output passwords",
    "mirrormesh provision mesh.yaml --only mesh --users --output passwords --prune --dry-run",
    "mirrormesh provision mesh.yaml --only mesh --users --output passwords --prune",
    "mirrormesh provision mesh.yaml --only data --users --output data-passwords",
    "mirrormesh provision mesh.yaml --check",
    'export DATA_USER=east-feeder DATA_PASSWORD="$(cat data-passwords/east-feeder)"',
    "mirrormesh feed mesh.yaml east records.csv.gz --rate 500",
)
"""Lines that need a broker with users: tests/kafka/test_howto.py runs them as they are."""
LEFT_OUT = {
    "make demo": "Installs into .venv; tests/streams/cli/test_demo.py has the demo.",
    "make test": "Runs this very test.",
    "make test-slow": "Takes twenty minutes.",
    "make lint": "Takes a minute; the same as a developer runs it before this.",
    "make docs": "Writes the pages; tests/docs/test_pages.py compares them.",
    "make site": "Runs for seconds; tests/docs/test_site.py builds it.",
    "make release": "Runs for half a minute; tests/test_packaging.py builds one.",
    ". .venv/bin/activate": "Changes the reader's own shell.",
    "mirrormesh schema payments.csv --output schema.yaml": (
        "Needs the reader's own file; tests/streams/cli/test_schema.py."
    ),
    "mirrormesh up my-mesh.yaml": "Needs a broker; tests/kafka/test_tutorial.py has the same.",
    "mirrormesh up mesh.yaml": "Needs a broker; tests/kafka/test_tutorial.py has the same.",
    **dict.fromkeys(
        (
            "python banks.py create",
            "python banks.py pay 4000",
            (
                "mirrormesh schema --topic north.payments --servers 127.0.0.1:19092 "
                "--registry http://127.0.0.1:8081/apis/ccompat/v7 --output proposed.yaml"
            ),
            "mirrormesh up banks.yaml --plain",
            "mirrormesh score banks.yaml north",
            "python banks.py pay 300",
            "python scores.py 4300",
        ),
        "Needs a broker and a registry; tests/kafka/test_topic_to_scores.py has all of the page.",
    ),
    "docker run --detach --publish 8081:8080 apicurio/apicurio-registry-mem:2.6.13.Final": (
        "Needs Docker; tests/kafka/test_topic_to_scores.py has the registry without."
    ),
    "mirrormesh broker start": "Takes the reader's own port; tests/kafka/test_commands.py.",
    "mirrormesh broker stop": "Stops the reader's own broker; tests/kafka/test_commands.py.",
    "mirrormesh broker start --folder mesh-broker --port 19192 --secure": (
        "Takes three ports; tests/kafka/test_secure_broker.py."
    ),
    "mirrormesh broker stop --folder mesh-broker": "The same; tests/kafka/test_commands.py.",
    "mirrormesh broker certificate east --folder mesh-broker --output east-secrets": (
        "Needs that broker's folder; tests/streams/cli/test_broker.py."
    ),
    "mirrormesh scheduler mesh.yaml --metrics 9100": (
        "Runs until it is stopped; tests/kafka/test_metrics_live.py."
    ),
    "mirrormesh end mesh.yaml --yes": "Needs a broker; tests/kafka/test_lost_plans.py.",
    "mirrormesh node mesh.yaml east --state /var/lib/mirrormesh --metrics 9101": (
        "Runs until the run is over, in a folder of the system; tests/kafka/test_liveness.py."
    ),
    "mirrormesh leave mesh.yaml east --state /var/lib/mirrormesh": (
        "Needs a node that runs; tests/kafka/test_joining.py."
    ),
    "mirrormesh budget mesh.yaml": "Needs a broker; tests/kafka/test_budget.py.",
    "mirrormesh budget mesh.yaml east --state /var/lib/mirrormesh --json": (
        "Reads a folder of the system; tests/kafka/test_reuse.py."
    ),
    "mirrormesh pardon mesh.yaml west --state /var/lib/mirrormesh --by east": (
        "Needs a neighbour's journal; tests/streams/cli/test_pardon.py."
    ),
    "mirrormesh audit releases mesh.yaml": "Needs a broker; tests/kafka/test_audit_releases.py.",
    "mirrormesh model mesh.yaml --output fraud": "Needs a broker; tests/kafka/test_model.py.",
    "mirrormesh model mesh.yaml --output fraud --state DIR --node east": (
        "Reads the journal of a mesh; tests/streams/cli/test_model.py."
    ),
    "mirrormesh up lending.yaml": "Needs a broker; tests/kafka/test_collaboration.py.",
    "mirrormesh provision lending.yaml": "Needs a broker; tests/kafka/test_collaboration.py.",
    "mirrormesh owner lending.yaml bank-a --state /var/lib/mirrormesh": (
        "Runs until the run is over, in a folder of the system; tests/kafka/test_collaboration.py."
    ),
    "mirrormesh learner lending.yaml --state /var/lib/mirrormesh": (
        "The same; tests/kafka/test_collaboration.py."
    ),
    "mirrormesh provision lending.yaml --only mesh --users --output passwords": (
        "Needs a broker with users; tests/kafka/test_provision_users.py has the same of a mesh."
    ),
    "mirrormesh provision lending.yaml --check": "The same; tests/kafka/test_provision_users.py.",
    "mirrormesh watch lending.yaml": "Runs until it is over; tests/kafka/test_collaboration.py.",
    "mirrormesh audit mechanism lending.yaml": "Draws for a minute; tests/streams/cli/test_audit.py.",
    "mirrormesh audit releases lending.yaml": "Needs a broker; tests/kafka/test_collaboration.py.",
    "mirrormesh watch mesh.yaml": "Runs until it is stopped; tests/kafka/test_watch.py.",
    "mirrormesh watch mesh.yaml --once": "Needs a broker; tests/kafka/test_tutorial.py has the same.",
    "mirrormesh watch mesh.yaml --round 196": "Needs a broker; tests/kafka/test_watch.py has the same.",
    "mirrormesh up deploy/meshes/tracking-switching.yaml --rate 8 --observe": (
        "Stays until it is stopped; tests/kafka/test_observed.py."
    ),
    "mirrormesh up deploy/meshes/tracking.yaml --rate 5 --metrics-from 9100": (
        "Takes minutes and fixed ports; tests/kafka/test_observed.py."
    ),
    "python3 -m venv /opt/mirrormesh": "Writes to the system; tests/test_packaging.py installs elsewhere.",
    "/opt/mirrormesh/bin/pip install mirrormesh-0.1.0-py3-none-any.whl": "The same; tests/test_packaging.py.",
    "systemctl status 'mirrormesh-node@*'": "Needs systemd at work; tests/deploy/test_systemd.py.",
    "journalctl --unit mirrormesh-node@bank-1 --follow": "The same; tests/deploy/test_systemd.py.",
    "docker compose --file deploy/compose.observe.yaml up": "Needs Docker; tests/deploy/test_compose.py.",
    "make image BASE=python:3.13-slim@sha256:DIGEST": "Needs a registry; tests/deploy/test_image.py.",
    "make sbom": "Needs the image; tests/deploy/test_image.py has the list.",
    "deploy/image/base.sh": "Takes half a minute, as root; tests/deploy/test_image.py.",
    "make image BASE=localhost/mirrormesh-base": "Takes a minute; tests/deploy/test_image.py.",
    "deploy/compose/passwords.sh": "Writes into the source tree; tests/deploy/test_compose.py has it.",
    "MIRRORMESH_IMAGE=mirrormesh docker compose --file deploy/compose.yaml up": (
        "Needs Docker; tests/deploy/test_compose_run.py runs all of it."
    ),
    "docker compose --file deploy/compose.yaml run --rm watch": (
        "Needs Docker; tests/deploy/test_compose_run.py."
    ),
    "python -m grafana.draw http://127.0.0.1:9090 --mesh tracking-switching --minutes 5": (
        "Needs Prometheus; tests/grafana/test_dashboards.py."
    ),
    "mirrormesh tune mesh.yaml --pilot public.csv --records 8000 --slot-size --auc": (
        "Needs the reader's public records; tests/streams/cli/test_tune.py."
    ),
    "mirrormesh tune mesh.yaml --synthetic --mechanisms --delta 1e-6": (
        "Takes half a minute; tests/streams/cli/test_tune.py."
    ),
    **dict.fromkeys(
        (
            "kubectl diff --kustomize bank-1",
            "kubectl apply --filename bank-1/namespace.yaml",
            (
                "kubectl --namespace income-bank-1 create secret generic node-bank-1 "
                "--from-file=mesh-password --from-file=data-password --from-file=mesh-ca --from-file=data-ca"
            ),
            "kubectl apply --kustomize bank-1",
            "kubectl --namespace income-bank-1 rollout restart statefulset/node-bank-1",
            "kubectl --namespace income-bank-1 get pods",
            "kubectl --namespace income-bank-1 logs statefulset/node-bank-1",
            "kubectl --namespace income-bank-1 scale statefulset/node-bank-1 --replicas 0",
            "kubectl apply --kustomize operator",
            (
                "kubectl --namespace kafka get secret bank-a "
                "--output go-template='{{.data.password|base64decode}}'"
            ),
            "kubectl apply --kustomize bank-a",
            "helm install income-bank-1 chart --namespace income-bank-1 --set storageClass=fast",
        ),
        "Needs a cluster; tests/deploy/test_kubernetes.py has the manifests.",
    ),
    "python -m experiments run all --quick --output /tmp/figures": (
        "Takes minutes; tests/experiments/test_quick.py."
    ),
}
"""Lines of shell blocks that no test of the pages runs, each with the reason."""
_GENERATED = re.compile(r"<!-- generated: ([\w ]+) -->.*?<!-- end: \1 -->", re.DOTALL)
_SHELL = ("|", "&&", "||", ";", "&", ">")
Typed = Callable[[list[str]], object]


class Shell:
    """Takes the lines of shell blocks. `left_out`: lines that are not run here; `run` runs the others."""

    def __init__(self, left_out: Callable[[str], bool], run: Typed) -> None:
        self._left_out = left_out
        self._run = run

    def __call__(self, block: str) -> None:
        """Parse every command of the block; run those that are not left out."""
        for line in lines(block):
            for words in commands(line):
                check_command(words)
            if not self._left_out(line):
                (words,) = commands(line)
                self._run(words)


def run_blocks(page: Path, folder: Path, shell: Shell, edit: Callable[[str], str] = str) -> None:
    """Run the blocks of a page in `folder`, the working directory; `edit` changes what files hold."""
    copy = folder / f".{page.name}"
    copy.write_text(_GENERATED.sub("", page.read_text()))
    parsers = [
        CodeBlockParser("python", lambda example: read_python(example, folder, edit)),
        CodeBlockParser("yaml", lambda example: read_yaml(str(example.parsed), folder, edit)),
        CodeBlockParser("sh", lambda example: shell(str(example.parsed))),
    ]
    for example in Sybil(parsers=parsers, pattern="*").parse(copy).examples():
        _evaluate(example)


def _evaluate(example: Example) -> None:
    try:
        example.evaluate()
    except SystemExit as ended:
        raise AssertionError(f"line {example.line}: ended with {ended.code}") from ended


def read_python(example: Example, folder: Path, edit: Callable[[str], str]) -> None:
    """Run a block; one that names its file is saved under that name, and only compiled."""
    text = str(example.parsed)
    named = re.match(r"# ([\w.-]+\.py)\n", text)
    if named:
        (folder / named[1]).write_text(edit(text))
        compile(text, named[1], "exec")
    else:
        PythonEvaluator()(example)


def read_yaml(text: str, folder: Path, edit: Callable[[str], str] = str) -> None:
    """Load a mesh file, or check a part of one; a block that names its file is saved under that name."""
    named = re.match(r"# ([\w.-]+\.yaml)\n", text)
    path = folder / (named[1] if named else ".part.yaml")
    path.write_text(edit(text))
    tree = yaml_tree(path)
    if named:
        if "mesh" in tree:
            load_any(path, ENVIRONMENT)
        return
    context = {"folder": folder, "environment": ENVIRONMENT, "secrets": False}
    for key, value in tree.items():
        TypeAdapter(_kind(key)).validate_python(value, context=context)


def _kind(key: str) -> Any:
    """Return what reads the value of a key that stands alone."""
    parts: dict[str, Any] = {
        "mesh": MeshSettings,
        "brokers": CommonBrokers,
        "nodes": dict[str, NodeSettings],
        "held_out": HeldOutSettings,
    }
    if key in parts:
        return parts[key]
    for kind in (SchemaSettings, MeshSettings, NodeSettings, TopicSettings):
        if key in kind.model_fields:
            return kind.__pydantic_fields__[key].rebuild_annotation()
    raise AssertionError(f"{key} is no key of a mesh file")


def lines(block: str) -> Iterator[str]:
    """Yield the commands of a shell block, comments and blank lines left out, continued lines joined."""
    for line in block.replace("\\\n", " ").splitlines():
        found = re.sub(r"(^|\s)#.*", "", line).strip()
        if found:
            yield " ".join(found.split())


def commands(line: str) -> Iterator[list[str]]:
    """Yield each command of a line in words, variables before it left out."""
    words: list[str] = []
    for word in [*shlex.split(line), ";"]:
        if word not in _SHELL:
            words.append(word)
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if words:
            yield words
        words = []


def check_command(words: list[str]) -> None:
    """Raise unless our command line takes these words, make has the target, or Python has the module."""
    match words:
        case ["mirrormesh", *rest]:
            parse(rest)
        case ["make", target, *_]:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        case ["python", "-m", module, *_] if module.split(".")[0] in {
            "docs",
            "grafana",
            "tests",
            "experiments",
        }:
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def parse(words: list[str]) -> None:
    """Raise unless these are a command of ours with its options and as many arguments as it takes."""
    command, rest = found_command(words)
    command.make_context("mirrormesh", rest)


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words begin with, and the words after it."""
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        context = command.make_context("mirrormesh", [], resilient_parsing=True)
        below = command.get_command(context, rest[0])
        assert below is not None, f"mirrormesh has no command {rest[0]}"
        command, rest = below, rest[1:]
    return command, rest


def ends_by_itself(line: str) -> bool:
    """Whether a line is one command that ends by itself and needs nothing outside."""
    return line == "python -m experiments list" or _is_one_of(ENDS, line)


def is_for_kafka(line: str) -> bool:
    """Whether a line is one command that ends by itself where a broker is."""
    return _is_one_of(ON_KAFKA, line)


def _is_one_of(names: tuple[str, ...], line: str) -> bool:
    return re.match(rf"mirrormesh ({'|'.join(names)})( |$)", line) is not None and "|" not in line


def typed(words: list[str]) -> str:
    """Run a command in a process of its own; return what it said. It must end well."""
    if words[0] == "mirrormesh":
        words = ["python", "-c", f"from streams.cli import main; main({words[1:]!r})"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words[1:]], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def typed_here(words: list[str]) -> None:
    """Run a command of ours in this process, which spares its imports; any other as `typed` does."""
    if words[0] != "mirrormesh":
        typed(words)
        return
    try:
        main(words[1:])
    except SystemExit as ended:
        assert not ended.code, f"{shlex.join(words)}: exit code {ended.code}"  # noqa: PT017 # it always ends so
