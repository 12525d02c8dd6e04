"""Runs the services of a compose file without an engine, each as the file says: see containers.py.

Services start in the order of `depends_on`, once what they wait for is healthy by its own check, or done.
Programs of this machine stand in for Kafka's and Prometheus's images; Grafana is left out.
"""

import os
import re
import shlex
import time
from pathlib import Path

import yaml

from streams.tools.broker.java import find_jars, find_java, kafka_command
from tests.support.brokers.topics import PATIENCE
from tests.support.processes.programs import need
from tests.support.published.containers import Container, end

LEFT_OUT = ("grafana",)
_CLASSES = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}


class Project:
    """The services of a compose file; at the context's end all are asked to end.

    `image`: what the mesh's services run in. `secrets`: the files of all secrets, by their names.
    """

    def __init__(self, path, image, network, folder):
        self._tree, self._beside = yaml.safe_load(path.read_text()), path.parent
        self._image, self._network, self._folder = image, network, folder
        self.secrets = {name: path.parent / one["file"] for name, one in self._tree["secrets"].items()}
        every = {name: one for name, one in self._tree["services"].items() if name not in LEFT_OUT}
        self.services = {name: one for name, one in every.items() if "profiles" not in one}
        (folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(self.services)}\n")
        self.containers = {name: self._container(name, one) for name, one in every.items()}
        self.running, self.ended = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Start all, each after what it waits for."""
        waiting = dict(self.services)
        started = time.monotonic()
        while waiting:
            for name in [name for name in waiting if self._may_start(name)]:
                self.start(name)
                del waiting[name]
            assert time.monotonic() < started + 2 * PATIENCE, {name: self.log(name) for name in self.running}
            time.sleep(0.1)

    def start(self, name):
        """Start a service."""
        service = self.services[name]
        words = [*service.get("entrypoint", self._entrypoint(service)), *service.get("command", [])]
        self.running[name] = self.containers[name].start(self._log(name), *words)

    def run(self, name, *options):
        """Run a service that `up` leaves out, with more options; return (exit code, all it said)."""
        service = self._tree["services"][name]
        words = [*self._entrypoint(service), *service["command"], *options]
        return self.containers[name].run(*words)

    def is_healthy(self, name):
        """Whether a service runs and its own check says that it is well."""
        self._collect()
        if name not in self.running:
            return False
        kind, *words = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.containers[name].run(*words)[0] == 0

    def log(self, name):
        """Return what a service has said."""
        return self._log(name).read_text(errors="replace")

    def down(self):
        """Ask all to end, the broker last; return their exit codes."""
        for name in sorted(self.running, key="broker".__eq__):
            self.ended[name] = end(self.running.pop(name))
        return self.ended

    def _may_start(self, name):
        for other, condition in self.services[name].get("depends_on", {}).items():
            if other not in self.running and other not in self.ended:
                return False
            if condition == {"condition": "service_completed_successfully"}:
                self._collect()
                if self.ended.get(other) is None:
                    return False
                assert self.ended[other] == 0, self.log(other)
            else:
                assert condition == {"condition": "service_healthy"}
                if not self.is_healthy(other):
                    return False
        return True

    def _collect(self):
        for name in [name for name, process in self.running.items() if process.poll() is not None]:
            self.ended[name] = self.running.pop(name).returncode
            assert self.ended[name] == 0, f"{name}: {self.log(name)[-3000:]}"

    def _log(self, name):
        return self._folder / f"{name}.log"

    def _entrypoint(self, service):
        return ["prometheus"] if service["image"].startswith("prom/") else self._image.config["Entrypoint"]

    def _container(self, name, service):
        mounts = [(self._folder / "hosts", "/etc/hosts", False)]
        for volume in service.get("volumes", []):
            source, place, *mode = volume.split(":")
            if not source.startswith("."):
                assert source in self._tree["volumes"]
                path = self._folder / "volumes" / source
                path.mkdir(parents=True, exist_ok=True)
                os.chown(path, 10001, 10001)  # as an engine does with a new volume of the image's folder
                mounts.append((path, place, True))
            else:
                assert mode == ["ro"]
                mounts.append((self._beside / source, place, False))
        for secret in service.get("secrets", []):
            used = secret if isinstance(secret, dict) else {"source": secret, "target": secret}
            mounts.append((self.secrets[used["source"]], f"/run/secrets/{used['target']}", False))
        given = service.get("environment", {})
        if "MIRRORMESH_IMAGE" in service["image"]:
            assert service["read_only"]
            environment = self._image.environment | given
            folder = self._image.config["WorkingDir"]
            return Container(self._image.root, self._network, environment, mounts, folder=folder)
        if name == "broker":
            mounts.append((self._kafka(), "/opt/kafka/bin", False))
        else:
            need(name)
        environment = {"PATH": os.environ["PATH"], **given}
        return Container(Path("/"), self._network, environment, mounts, "0:0", read_only=False)

    def _kafka(self):
        """Make the programs of Kafka's image out of this machine's."""
        folder, java, jars = self._folder / "kafka", find_java(), find_jars(print)
        folder.mkdir()
        for name, entry in _CLASSES.items():
            words = shlex.join(word for word in kafka_command(java, jars, entry) if "log4j2" not in word)
            (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / name).chmod(0o755)
        return folder


def variables(text):
    """Return the variables that a compose file asks for."""
    return set(re.findall(r"\$\{(\w+)", text))
