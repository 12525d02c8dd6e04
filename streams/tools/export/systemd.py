"""Units of systemd for bare hosts: mesh files, drop-ins, and the commands that put them in their places."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from streams.mesh.settings.node import LIVENESS
from streams.mesh.settings.parties import Party
from streams.tools.export.process_file import ProcessFile, node_file, scheduler_file
from streams.tools.export.raw_mesh import RawMesh
from streams.tools.packed import packed

NODE = "mirrormesh-node@.service"
SCHEDULER = "mirrormesh-scheduler.service"
HERE = "127.0.0.1"
FIRST_PORT = 9100
"""The scheduler's; nodes have two each from the next one on: the shared one, and their owner's."""
LONGEST_USER = 31
"""The longest name of a user on Linux."""
UNITS = "etc/systemd/system"
CREDENTIALS = "${CREDENTIALS_DIRECTORY}"


@dataclass(frozen=True, slots=True)
class _Service:
    """One process: its name in paths, its unit, its instance, its mesh file, its ports and its drop-in."""

    name: str
    unit: str
    service: str
    file: ProcessFile
    shared: int
    dropin: str

    @property
    def paths(self) -> tuple[str, str, str]:
        """Where its mesh file, its unit and its drop-in go, from the root on."""
        return (
            f"etc/mirrormesh/{self.name}.yaml",
            f"{UNITS}/{self.unit}",
            f"{UNITS}/{self.service}.service.d/mesh.conf",
        )

    def files(self) -> dict[str, str]:
        """Return its files by their paths."""
        unit = packed("deploy_systemd", "deploy/systemd") / self.unit
        return dict(zip(self.paths, (self.file.text, unit.read_text("utf-8"), self.dropin), strict=True))


def party(raw: RawMesh, whose: Party) -> dict[str, str]:
    """Return the files of a party: for each of its nodes those of one service."""
    services = [_node(raw, node, FIRST_PORT + 2 * k + 1) for k, node in enumerate(whose.nodes)]
    return _written(f"party {whose.name} of mesh {raw.file.mesh.name}", services)


def operator(raw: RawMesh) -> dict[str, str]:
    """Return the files of the mesh's operator."""
    file = scheduler_file(raw, CREDENTIALS)
    dropin = _dropin("scheduler", file, FIRST_PORT, [])
    service = _Service("scheduler", SCHEDULER, "mirrormesh-scheduler", file, FIRST_PORT, dropin)
    return _written(f"the operator of mesh {raw.file.mesh.name}", [service])


def _node(raw: RawMesh, node: str, port: int) -> _Service:
    own = raw.file.own(node)
    private = "{}:{}".format(*own.private_endpoint or (HERE, port + 1))
    file = node_file(raw, node, CREDENTIALS, private)
    lines = [f"User={_user(node)}"]
    if own.liveness != LIVENESS:
        lines.append(f"WatchdogSec={own.liveness:g}s")
    dropin = _dropin(node, file, port, lines)
    return _Service(node, NODE, f"mirrormesh-node@{node}", file, port, dropin)


def _user(node: str) -> str:
    """Return the node's user: without a name of its own, all nodes of a host would be one user."""
    name = f"mirrormesh-{node}"
    return (
        name if len(name) <= LONGEST_USER else f"mirrormesh-{hashlib.sha256(node.encode()).hexdigest()[:16]}"
    )


def _dropin(name: str, file: ProcessFile, port: int, more: list[str]) -> str:
    """Return what one service does otherwise than its unit; `more`: further lines."""
    lines = ["[Service]", f"Environment=OPTIONS='--metrics {HERE}:{port}'", *more]
    if file.variables:
        lines.append(f"EnvironmentFile=/etc/mirrormesh/{name}.env")
    return "".join(f"{line}\n" for line in lines)


def _written(whose: str, services: list[_Service]) -> dict[str, str]:
    found = {path: text for service in services for path, text in service.files().items()}
    return found | {"README.md": "\n".join(_readme(whose, services)) + "\n"}


def _readme(whose: str, services: list[_Service]) -> Iterator[str]:
    yield f"# Services of {whose}"
    yield ""
    yield "On each host install mirrormesh in `/opt/mirrormesh`. Then run the lines of its services as root,"
    yield "in this folder. It holds no secret: lines that end in `# ...` say which one to put in its place."
    for service in services:
        yield from ("", f"## {service.name}", "", "```sh", *_commands(service), "```")


def _commands(service: _Service) -> Iterator[str]:
    for path in service.paths:
        yield f"install -D -m 0644 {path} /{path}"
    yield "install -d -m 0700 /etc/credstore"
    for name, source in service.file.files.items():
        yield f"install -m 0600 {name} /etc/credstore/mirrormesh.{service.name}.{name}  # a copy of {source}"
    if service.file.variables:
        lines = ", ".join(f"{name}=..." for name in service.file.variables)
        yield f"install -m 0600 {service.name}.env /etc/mirrormesh/{service.name}.env  # lines: {lines}"
    yield "systemctl daemon-reload"
    yield f"systemctl enable {service.service}"
    yield f"systemctl restart --no-block {service.service}"
    yield f"systemctl status {service.service}"
