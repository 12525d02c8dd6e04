"""Institutions on sites of one machine, each with folders and a Kafka, as their people set them up."""

import shutil
from pathlib import Path

import yaml

from streams.mesh.settings.files import read_yaml
from tests.support.brokers.development import free_ports
from tests.support.brokers.topics import until
from tests.support.processes.command import LONG
from tests.support.processes.forked import Forked
from tests.support.published.pods import Pod

INCOME = Path("deploy/meshes/income.yaml").resolve()


def login(broker, user, password_file, ca):
    """How a user reaches a broker, over TLS."""
    return {
        "servers": broker.sasl_tls,
        "security": "sasl-tls",
        "username": user,
        "password_file": str(password_file),
        "ca": str(ca),
    }


def admin(broker):
    """How its administrator reaches a broker."""
    return login(broker, "admin", broker.password_file, broker.ca)


class Site:
    """A folder of somebody who takes part, with a Kafka of their own or none. Commands run in it."""

    def __init__(self, folder, shared, mesh_broker, broker=None):
        self.folder, self._shared, self.mesh_broker, self.broker = folder, shared, mesh_broker, broker
        self.processes = {}
        folder.mkdir()

    def write(self, name, **rest):
        """Write a mesh file of the shared part and this."""
        (self.folder / name).write_text(yaml.safe_dump({"mesh": self._shared, **rest}))
        return name

    def do(self, *arguments):
        """Run a command that ends by itself; return what it said."""
        process = Forked(self.folder, arguments[0], *arguments)
        assert process.ends() == 0, process.log
        return process.log

    def receive(self, *secrets):
        """Get what somebody hands over: (file, name here)."""
        (self.folder / "secrets").mkdir(exist_ok=True)
        for file, name in secrets:
            shutil.copy(file, self.folder / "secrets" / name)

    def provision_data(self, nodes):
        """Make topics and users of the nodes on the own Kafka."""
        brokers = {"mesh": admin(self.mesh_broker) | {"username": "nobody"}, "data": admin(self.broker)}
        parts = {node: {**own_part(node), "brokers": brokers} for node in nodes}
        self.do(
            "provision",
            self.write("admin.yaml", nodes=parts),
            "--only",
            "data",
            "--users",
            "--output",
            "data-users",
        )
        (self.folder / "admin.yaml").unlink()

    def feed(self, node):
        """Write the node's records to the own Kafka."""
        user = f"{node}-feeder"
        data = login(self.broker, user, self.folder / "data-users" / user, self.broker.ca)
        part = {**own_part(node), "brokers": {"mesh": self.mesh_login(node), "data": data}}
        return self.start(f"feed-{node}", "feed", self.write(f"feed-{node}.yaml", nodes={node: part}), node)

    def mesh_login(self, user):
        """How the user reaches the mesh broker with what was handed over."""
        secrets = self.folder / "secrets"
        return login(self.mesh_broker, user, secrets / "mesh-password", secrets / "mesh-ca.crt")

    def start(self, label, *arguments):
        """Start a process."""
        self.processes[label] = process = Forked(self.folder, label, *arguments)
        return process

    def start_exported(self, name, secrets):
        """Start what the folder `export` has of that name, with its mesh file and these secrets alone."""
        files = {path.name: path.read_text() for path in (self.folder / "export").glob("*.yaml")}
        secret = {key: path.read_text() for key, path in secrets.items()}
        ports = free_ports(1 if name == "scheduler" else 2)
        return self.start(name, *Pod(files, self.folder / name, secret, ports, name).mount())

    def end(self):
        """Kill what runs."""
        for process in self.processes.values():
            process.kill()


def finish(*sites):
    """Wait until all that they started has ended well."""
    processes = {
        f"{site.folder.name}: {label}": one for site in sites for label, one in site.processes.items()
    }

    def all_ended():
        for label, process in processes.items():
            assert process.code in {None, 0}, f"{label}: {process.log[-3000:]}"
        return not any(process.running for process in processes.values())

    until(all_ended, LONG)


def own_part(node):
    """The own part of a node of income.yaml, with its paths."""
    part = read_yaml(INCOME)["nodes"][node]
    source = part["source"]
    return {"source": {**source, **{key: str(INCOME.parent / source[key]) for key in ("path", "schema")}}}
