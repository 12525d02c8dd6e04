"""Units of systemd for bare hosts: for each process its mesh file, its unit, and a drop-in."""

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streams.collaboration.settings import OwnerSettings
from streams.mesh.compatibility import by_time
from streams.mesh.settings.node import LIVENESS, NodeSettings
from streams.mesh.settings.parties import Party
from streams.mesh.shipped import packed
from streams.tools.export import memory
from streams.tools.export.raw_mesh import (
    Participant,
    ProcessFile,
    RawCollaboration,
    RawMesh,
    fed_file,
    feed_file,
    learner_file,
    node_file,
    owner_file,
    scheduler_file,
    score_file,
    set_file,
)

# The files of services of systemd, and the commands that install them.

HERE = "127.0.0.1"
LONGEST_USER = 31
"""The longest name of a user on Linux."""
UNITS = "etc/systemd/system"
SETS = "/srv/mirrormesh"
"""The folder of the owners' sets, with a folder for each owner. Only root may enter it."""
SET = "/run/mirrormesh/set"
"""The folder in which a service sees the set of its owner."""


@dataclass(frozen=True, slots=True)
class Service:
    """One process: its name in paths, its unit, its instance, its mesh file and its drop-in.

    `records`: the name of the file of its set, where it reads one.
    """

    name: str
    unit: str
    service: str
    file: ProcessFile
    dropin: str
    records: str | None = None

    @property
    def paths(self) -> tuple[str, str, str]:
        """The paths of its mesh file, its unit and its drop-in, from the root on."""
        return (
            f"etc/mirrormesh/{self.name}.yaml",
            f"{UNITS}/{self.unit}",
            f"{UNITS}/{self.service}.service.d/mesh.conf",
        )

    def files(self) -> dict[str, str]:
        """Return the process's files by their paths."""
        unit = packed("deploy_systemd", "deploy/systemd") / self.unit
        return dict(zip(self.paths, (self.file.text, unit.read_text("utf-8"), self.dropin), strict=True))


def user(name: str) -> str:
    """Return a process's user name. Without it all processes of a host would be the same user."""
    full_name = f"mirrormesh-{name}"
    return (
        full_name
        if len(full_name) <= LONGEST_USER
        else f"mirrormesh-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )


def dropin(name: str, file: ProcessFile, port: int, more: list[str], code: Iterable[str] = ()) -> str:
    """Return a service's differences from its unit. `more`: further lines.

    `code`: the user's code that it may run.
    """
    options = " ".join([f"--metrics {HERE}:{port}", *(f"--code={allowed}" for allowed in code)])
    lines = ["[Service]", f"Environment=OPTIONS='{options}'", *more]
    if file.variables:
        lines.append(f"EnvironmentFile=/etc/mirrormesh/{name}.env")
    return "".join(f"{line}\n" for line in lines)


def written(whose: str, services: list[Service]) -> dict[str, str]:
    """Return the files of all services, and a README.md with the commands that install them."""
    files = {path: text for service in services for path, text in service.files().items()}
    return files | {"README.md": "\n".join(_readme(whose, services)) + "\n"}


def _readme(whose: str, services: list[Service]) -> Iterator[str]:
    yield f"# Services of {whose}"
    yield ""
    yield "On each host install mirrormesh in `/opt/mirrormesh`. Then run the lines of its services as root,"
    yield "in this folder. It holds no secret and no record: lines that end in `# ...` say what goes there."
    for service in services:
        yield from ("", f"## {service.name}", "", "```sh", *_commands(service), "```")


def _commands(service: Service) -> Iterator[str]:
    for path in service.paths:
        yield f"install -D -m 0644 {path} /{path}"
    yield "install -d -m 0700 /etc/credstore"
    for name, source in service.file.files.items():
        yield f"install -m 0600 {name} /etc/credstore/mirrormesh.{service.name}.{name}  # a copy of {source}"
    if service.file.variables:
        lines = ", ".join(f"{name}=..." for name in service.file.variables)
        yield f"install -m 0600 {service.name}.env /etc/mirrormesh/{service.name}.env  # lines: {lines}"
    if service.records is not None:
        service_folder = f"{SETS}/{service.name}"
        yield f"install -d -m 0700 {SETS}"
        yield f"install -d -m 0755 {service_folder}"
        set_file, target = shlex.quote(service.records), shlex.quote(f"{service_folder}/{service.records}")
        yield f"install -m 0644 -- {set_file} {target}  # the set of records"
    yield "systemctl daemon-reload"
    yield f"systemctl enable {service.service}"
    yield f"systemctl restart --no-block {service.service}"
    yield f"systemctl status {service.service}"


NODE = "mirrormesh-node@.service"
SCHEDULER = "mirrormesh-scheduler.service"
OWNER = "mirrormesh-owner@.service"
SCORE = "mirrormesh-score@.service"
FEED = "mirrormesh-feed@.service"
LEARNER = "mirrormesh-learner@.service"
FIRST_PORT = 9100
"""The port of the scheduler, or of the learner. From the next port on, each node and owner has two: the
shared port, and the port for its owner."""
FIRST_SCORE_PORT = 9301
"""The first port of the processes that score, which have one each."""
FIRST_FEED_PORT = 9501
"""The first port of feeders, which have one each."""
CREDENTIALS = "${CREDENTIALS_DIRECTORY}"


def party(raw: RawMesh, whose: Party) -> dict[str, str]:
    """Return the files of a party: for each node its own service, and those of its scores and of its feed."""
    services = [_node(raw, node, FIRST_PORT + 2 * k + 1) for k, node in enumerate(whose.nodes)]
    scores = [node for node in whose.nodes if raw.file.own(node).score is not None]
    services += [_score(raw, node, FIRST_SCORE_PORT + k) for k, node in enumerate(scores)]
    fed = [(node, fed_file(raw, node)) for node in whose.nodes]
    fed_nodes = [(node, records) for node, records in fed if records is not None]
    services += [
        _feed(raw, node, records, FIRST_FEED_PORT + k) for k, (node, records) in enumerate(fed_nodes)
    ]
    return written(f"party {whose.name} of mesh {raw.file.mesh.name}", services)


def operator(raw: RawMesh) -> dict[str, str]:
    """Return the files of the mesh's operator."""
    file = scheduler_file(raw, CREDENTIALS)
    lines = dropin("scheduler", file, FIRST_PORT, [])
    service = Service("scheduler", SCHEDULER, "mirrormesh-scheduler", file, lines)
    return written(f"the operator of mesh {raw.file.mesh.name}", [service])


def participant(raw: RawCollaboration, whose: Participant) -> dict[str, str]:
    """Return the files of a party of a collaboration: those of one service."""
    service = _owner(raw, whose.name) if whose.owner else _learner(raw, whose.name)
    return written(f"{whose.kind} {whose.name} of collaboration {raw.file.mesh.name}", [service])


def _node(raw: RawMesh, node: str, port: int) -> Service:
    node_settings = raw.file.own(node)
    file = node_file(raw, node, CREDENTIALS, _private(node_settings, port))
    own_lines = [*_own_lines(node, node_settings), _memory(memory.of_node(raw.file.resolved, node))]
    lines = dropin(node, file, port, own_lines, raw.file.code_of(node))
    return Service(node, NODE, f"mirrormesh-node@{node}", file, lines)


def _score(raw: RawMesh, node: str, port: int) -> Service:
    settings = raw.file.own(node).score
    endpoint = None if settings is None else settings.private_endpoint
    file, name = (
        score_file(raw, node, CREDENTIALS, "{}:{}".format(*endpoint or (HERE, port))),
        f"{node}.score",
    )
    options = " ".join(f"--code={allowed}" for allowed in raw.file.code_of(node))
    lines = ["[Service]", f"Environment=OPTIONS='{options}'", f"User={user(f'score-{node}')}"]
    if file.variables:
        lines.append(f"EnvironmentFile=/etc/mirrormesh/{name}.env")
    return Service(name, SCORE, f"mirrormesh-score@{node}", file, "".join(f"{line}\n" for line in lines))


def _feed(raw: RawMesh, node: str, records: str, port: int) -> Service:
    file, name = feed_file(raw, node, CREDENTIALS, SET), f"{node}.feed"
    words = [f"--private-metrics {HERE}:{port}", *(["--timestamps"] if by_time(raw.file.mesh) else [])]
    options = " ".join([*words, *(f"--code={allowed}" for allowed in raw.file.code_of(node))])
    lines = ["[Service]", f"Environment=OPTIONS='{options}'", f"User={user(f'feed-{node}')}"]
    lines.append(f"BindReadOnlyPaths={SETS}/{name}:{SET}")
    if file.variables:
        lines.append(f"EnvironmentFile=/etc/mirrormesh/{name}.env")
    lines_text = "".join(f"{line}\n" for line in lines)
    return Service(name, FEED, f"mirrormesh-feed@{node}", file, lines_text, records)


def _owner(raw: RawCollaboration, owner: str) -> Service:
    owner_settings, port, records = raw.file.own(owner), FIRST_PORT + 1, set_file(raw, owner)
    file = owner_file(raw, owner, CREDENTIALS, _private(owner_settings, port), SET)
    bind_lines = [] if records is None else [f"BindReadOnlyPaths={SETS}/{owner}:{SET}"]
    own_lines = [*_own_lines(owner, owner_settings), _memory(memory.of_owner(raw.file.mesh))]
    lines = dropin(owner, file, port, [*own_lines, *bind_lines])
    return Service(owner, OWNER, f"mirrormesh-owner@{owner}", file, lines, records)


def _learner(raw: RawCollaboration, name: str) -> Service:
    file = learner_file(raw, CREDENTIALS)
    own_lines = [f"User={user(name)}", _memory(memory.of_learner(raw.file.mesh))]
    lines = dropin(name, file, FIRST_PORT, own_lines)
    return Service(name, LEARNER, f"mirrormesh-learner@{name}", file, lines)


def _private(own: NodeSettings | OwnerSettings, port: int) -> str:
    return "{}:{}".format(*own.private_endpoint or (HERE, port + 1))


def _memory(requested: int) -> str:
    return f"MemoryMax={memory.limit(requested)}M"


def _own_lines(name: str, own: NodeSettings | OwnerSettings) -> list[str]:
    watched = [] if own.liveness == LIVENESS else [f"WatchdogSec={own.liveness:g}s"]
    return [f"User={user(name)}", *watched]
