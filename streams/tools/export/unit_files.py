"""The files of services of systemd, and the commands that put them in their places."""

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streams.tools.export.process_file import ProcessFile
from streams.tools.packed import packed

HERE = "127.0.0.1"
LONGEST_USER = 31
"""The longest name of a user on Linux."""
UNITS = "etc/systemd/system"
SETS = "/srv/mirrormesh"
"""Where the sets of owners are, a folder each. Nobody but root may enter it."""
SET = "/run/mirrormesh/set"
"""Where a service sees its own."""


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


def user(name: str) -> str:
    """Return a process's user: without a name of its own, all processes of a host would be one user."""
    whole = f"mirrormesh-{name}"
    return (
        whole
        if len(whole) <= LONGEST_USER
        else f"mirrormesh-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )


def dropin(name: str, file: ProcessFile, port: int, more: list[str], code: Iterable[str] = ()) -> str:
    """Return what one service does otherwise than its unit; `more`: further lines; `code`: it may run."""
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
