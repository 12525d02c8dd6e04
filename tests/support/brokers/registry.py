"""Schema registries for tests: one of our own, that misbehaves as it is told, and a real one, Apicurio."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, flock
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from urllib.request import urlopen

from streams.tools.broker.java import Missing, find_java
from tests.support.brokers.development import free_port
from tests.support.processes.programs import leave_out, need

APICURIO = "io.apicurio:apicurio-registry-app:2.6.13.Final:zip:all"
_COMPATIBLE = "/apis/ccompat/v7"
"""Where Apicurio answers as Confluent's registry does."""
_PATIENCE = 300.0


class StubRegistry(ThreadingHTTPServer):
    """A registry in this process, with `schemas` by their ids; `answer` may say otherwise.

    `answer(path)`: a status to answer with in place of what is asked for; None: what is asked for. `pace`:
    seconds between two bytes of an answer.
    """

    daemon_threads = True

    def __init__(self, port=0, user=None):
        super().__init__(("127.0.0.1", port), _Handler)
        self.schemas, self.asked, self.user = {}, [], user
        self.answer, self.pace = lambda path: None, 0.0
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def numbers(self):
        """The ids that were asked for, in order."""
        return [int(path.rpartition("/")[2]) for path in self.asked if "/ids/" in path]

    def looks(self):
        """How often it was looked at."""
        return sum(path.endswith("/types") for path in self.asked)

    def handle_error(self, request, client_address):
        """Say nothing of a client that has hung up."""

    def stop(self):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, path = self.server, self.path.partition("?")[0]
        server.asked.append(path)
        status, body = server.answer(path) or self._status(), {"error_code": 1, "message": "as told"}
        number = path.rpartition("/")[2]
        if status == 200 and "/ids/" in path:
            schema = server.schemas.get(int(number))
            status, body = (404, body) if schema is None else (200, {"schema": json.dumps(schema)})
        elif status == 200:
            body = ["AVRO"]
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        for place in range(len(text)) if server.pace else ():
            self.wfile.write(text[place : place + 1])
            time.sleep(server.pace)
        if not server.pace:
            self.wfile.write(text)

    def _status(self):
        user = self.server.user
        wanted = None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"
        return 200 if wanted in {None, self.headers["Authorization"]} else 401

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def stub_registry(**settings):
    """A registry of our own."""
    stub = StubRegistry(**settings)
    try:
        yield stub
    finally:
        stub.stop()


@contextmanager
def apicurio(folder, **settings):
    """Run Apicurio, in memory; yield its address and process. Without Java or Maven: skip, or fail in CI.

    `settings`: variables of its environment.
    """
    try:
        java = find_java()
    except Missing as error:
        leave_out(f"with a schema registry: {error}")
    need("mvn")
    jar, port = _fetched(), free_port()
    environment = os.environ | {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)} | settings
    command = [java, "-Xmx400m", "-XX:+UseSerialGC", "-jar", str(jar)]
    with (folder / "apicurio.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}{_COMPATIBLE}"
    try:
        until = time.monotonic() + _PATIENCE
        while not _answers(url):
            assert process.poll() is None, (folder / "apicurio.log").read_text()[-2_000:]
            assert time.monotonic() < until, "waited in vain"
            time.sleep(0.2)
        yield url, process
    finally:
        process.kill()
        process.wait()


class MortalRegistry:
    """Apicurio at an address that stays the same: it is killed, and comes back there with what it had.

    The address answers nobody until it has all of that. A registry in memory would deny it meanwhile.
    """

    def __init__(self, folder):
        self._folder, self._port = folder, free_port()
        self._exported, self._subjects = folder / "exported.zip", []
        self._life = ExitStack()
        self.url = f"http://127.0.0.1:{self._port}{_COMPATIBLE}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._life.close()

    def start(self):
        """Start it, the first time or after it was killed."""
        settings = {"REGISTRY_IMPORT_URL": self._exported.as_uri()} if self._exported.exists() else {}
        url, self._process = self._life.enter_context(apicurio(self._folder, **settings))
        self._inner = url.removesuffix(_COMPATIBLE)
        until = time.monotonic() + _PATIENCE
        while self._written() != self._subjects:
            assert time.monotonic() < until, "waited in vain"
            time.sleep(0.2)
        self._life.enter_context(_gateway(self._port, int(self._inner.rpartition(":")[2])))

    def kill(self):
        """Kill it, as a disk would survive it."""
        self._subjects = self._written()
        with urlopen(f"{self._inner}/apis/registry/v2/admin/export") as exported:  # noqa: S310 # our own
            self._exported.write_bytes(exported.read())
        self._process.kill()
        self._life.close()

    def _written(self):
        """Return the newest schema of each subject, with its id."""
        subjects = sorted(_json(f"{self._inner}{_COMPATIBLE}/subjects"))
        return [_json(f"{self._inner}{_COMPATIBLE}/subjects/{name}/versions/latest") for name in subjects]


def _json(url):
    with urlopen(url, timeout=_PATIENCE) as answer:  # noqa: S310 # an address of our own
        return json.load(answer)


@contextmanager
def _gateway(port, inner):
    """Hand connections at a port to another port of this machine."""

    class Connection(BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", inner)) as other:
                back = Thread(target=_copy, args=(other, self.request), daemon=True)
                back.start()
                _copy(self.request, other)
                back.join()

    class Gateway(ThreadingTCPServer):
        allow_reuse_address, daemon_threads, block_on_close = True, True, False

        def handle_error(self, request, client_address):
            """Say nothing of a registry that has died."""

    with Gateway(("127.0.0.1", port), Connection) as gateway:
        Thread(target=gateway.serve_forever, daemon=True).start()
        yield
        gateway.shutdown()


def _copy(of, to):
    """Hand on what one side sends, and that it has ended."""
    with suppress(OSError):
        while data := of.recv(65_536):
            to.sendall(data)
    with suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def _answers(url):
    try:
        with urlopen(f"{url}/schemas/types", timeout=5) as answer:  # noqa: S310 # an address of our own
            return answer.status == 200
    except OSError:
        return False


def _fetched():
    """Return Apicurio's jar, fetched by Maven on the first call on this machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirrormesh"
    version = APICURIO.split(":")[2]
    folder = cache / f"apicurio-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not folder.is_dir():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            quiet = ["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
            goal = ["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", f"-Dartifact={APICURIO}"]
            done = subprocess.run(
                ["mvn", *quiet, *goal, f"-DoutputDirectory={partial}"],
                cwd=cache,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-2_000:]
            (archive,) = partial.glob("*.zip")
            with zipfile.ZipFile(archive) as whole:
                whole.extractall(partial)
            archive.unlink()
            partial.rename(folder)
    return folder / f"apicurio-registry-app-{version}-runner.jar"
