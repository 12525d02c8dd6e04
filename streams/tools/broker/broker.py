"""Starts and stops the development broker, and reports whether it runs."""

import base64
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streams.tools.broker.folder import (
    ADMIN,
    CONTROLLER,
    SASL_TLS,
    TLS,
    BrokerIdentity,
    Folder,
    ensure_certificates,
    write_secret,
)
from streams.tools.broker.java import BrokerError, BrokerMisused, Say, find_jars, find_java, kafka_command

DEFAULT_PORT = 19_092
_READY = b"Kafka Server started"
_READY_WITHIN = 120.0
_STOPPED_WITHIN = 30.0
_NAMED_WITHIN = 5.0
_PAUSE = 0.05


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Broker:
    """A development broker.

    `secure`: it has users, certificates and ACLs, the user `admin` with the password in `password_file`, and
    TLS at two more addresses. Otherwise it is open to every process of this machine. `pid` is None while it
    does not run or is being started.
    """

    folder: Path
    port: int
    secure: bool
    running: bool
    pid: int | None

    @property
    def address(self) -> str:
        """The bootstrap servers for clients: plain, or security `sasl` of a secure broker."""
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_tls(self) -> str:
        """A secure broker's bootstrap servers for security `sasl-tls`."""
        return f"127.0.0.1:{self.port + SASL_TLS}"

    @property
    def tls(self) -> str:
        """A secure broker's bootstrap servers for security `tls`, where users show certificates."""
        return f"127.0.0.1:{self.port + TLS}"

    @property
    def ca(self) -> Path | None:
        """The certificate of the CA of the broker and its users; None for a plain broker."""
        return Folder(self.folder).ca if self.secure else None

    @property
    def log(self) -> Path:
        """The path of the broker's log."""
        return Folder(self.folder).log

    @property
    def password_file(self) -> Path | None:
        """The file with the password of `admin`, readable by its owner only; None for a plain broker."""
        return Folder(self.folder).password_file if self.secure else None


def start(folder: Path, port: int | None = None, *, secure: bool = False, say: Say = _silent) -> Broker:
    """Start the broker in `folder` and return it when it is ready; a running one is left alone.

    The first start creates the folder, plain or secure for good; topics are kept. The broker runs until
    `stop`, independent of this process. `port` None is the last one used, at first DEFAULT_PORT; the port
    1,000 above is used too. `say` is called before long work.

    Raises Missing (Java, Maven), BrokerMisused (another folder or port is needed),
        BrokerError (it did not start).
    """
    place = Folder(folder.absolute())
    place.claim()
    lock = take(place.lock)
    if lock is None:
        return _refuse_other(_until_ready(place), port, secure=secure)
    launched = False
    try:
        try:
            place.forget_pid()
            identity = place.identity()
            if identity is not None and secure and not identity.secure:
                raise BrokerMisused(f"{place.path}: was made without security: --secure needs a new folder")
            last = identity or BrokerIdentity(secure, DEFAULT_PORT)
            java, jars = find_java(), find_jars(say)
            _prepare(place, BrokerIdentity(last.secure, port or last.port), java, jars)
            launched = True
            _launch(place, java, jars, lock)
        finally:
            os.close(lock)
        return _until_ready(place)
    except BaseException:
        if launched:
            _end(place)
        raise


def stop(folder: Path) -> bool:
    """Stop the broker in `folder` and wait until its process has ended; return False if none ran.

    Raises BrokerError while one is starting.
    """
    return _end(Folder(folder.absolute()))


def status(folder: Path) -> Broker | None:
    """Return the broker in `folder`, running or not; None if none was ever started there."""
    place = Folder(folder.absolute())
    identity = place.identity()
    if identity is None:
        return None
    running = is_held(place.lock)
    return Broker(place.path, identity.port, identity.secure, running, place.pid() if running else None)


def _until_ready(place: Folder) -> Broker:
    """Wait until the broker reports that it is ready."""
    end = time.monotonic() + _READY_WITHIN
    while place.pid() is None or _READY not in place.said():
        failed = not is_held(place.lock)
        if failed or time.monotonic() > end:
            failure = "did not start" if failed else f"was not ready within {_READY_WITHIN:g} s"
            raise BrokerError(f"the broker {failure}; {place.log}:\n{_last_lines(place.log)}")
        time.sleep(_PAUSE)
    broker_status = status(place.path)
    if broker_status is None:
        raise BrokerError(f"{place.path}: the broker is gone")
    return broker_status


def _refuse_other(broker: Broker, port: int | None, *, secure: bool) -> Broker:
    """Return the running broker if it fits the request. Raises BrokerMisused otherwise."""
    if secure and not broker.secure:
        raise BrokerMisused(
            f"{broker.folder}: a broker without security runs there: --secure needs a new folder"
        )
    if port not in (None, broker.port):
        raise BrokerMisused(f"{broker.folder}: its broker runs on port {broker.port}: stop it first")
    return broker


def _pid_soon(place: Folder) -> int | None:
    """Return the process id of the broker that holds the lock; wait for one just launched to write it."""
    end = time.monotonic() + _NAMED_WITHIN
    while (pid := place.pid()) is None and is_held(place.lock) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return pid


def _end(place: Folder) -> bool:
    """Ask the broker to end, kill it if it does not, and wait for its end."""
    if not is_held(place.lock):
        return False
    for asking in (signal.SIGTERM, signal.SIGKILL):
        pid = _pid_soon(place)
        if pid is None:
            if not is_held(place.lock):
                return True
            raise BrokerError(f"{place.path}: the broker is just being started: try again")
        with suppress(ProcessLookupError):
            os.kill(pid, asking)
        end = time.monotonic() + _STOPPED_WITHIN
        while time.monotonic() < end:
            if not is_held(place.lock):
                return True
            time.sleep(_PAUSE)
    raise BrokerError(f"{place.path}: the broker does not end; {place.log}")


# Starts the broker's process: checks the ports, formats the folder once, and leaves Java running.
#
# The starter takes the broker's lock, and the broker inherits it. The broker's end frees the lock, whatever
# the cause is. So a broker runs if and only if its lock is held, and a reused process id cannot mislead.

# The outer sh ends at once, so no process must wait for Java. The inner sh writes the process id itself, as
# the starter may be interrupted at that moment. It creates the log first, as a reader of the process id reads
# the log.
_SHELL = """/bin/sh -c 'exec >>broker.log 2>&1; echo $$ >broker.pid; exec "$@"' sh "$@" &"""
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def _prepare(folder: Folder, identity: BrokerIdentity, java: str, jars: Path) -> None:
    """Prepare the folder for a start. Raises BrokerMisused (ports), BrokerError (formatting)."""
    highest = 65_535 - max(identity.ports) + identity.port
    if identity.port > highest:
        raise BrokerMisused(
            f"port {identity.port}: a secure broker's must be at most {highest:,}: it takes {TLS:,} above too"
        )
    for port in identity.ports:
        _refuse_used(port)
    folder.put_log_away()
    if identity.secure:
        ensure_certificates(folder)
    _format_once(folder, identity, java, jars)
    folder.write_settings(identity, identity.port + CONTROLLER, secrets.token_urlsafe(24))
    folder.write_identity(identity)


def _launch(folder: Folder, java: str, jars: Path, lock: int) -> None:
    """Start Java in its own session. It inherits `lock`.

    Its process id is written later, when it is not ready yet.
    """
    subprocess.run(  # noqa: S603 # arguments of our own
        ["/bin/sh", "-c", _SHELL, "sh", *kafka_command(java, jars, "kafka.Kafka", folder.settings.name)],
        cwd=folder.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
        check=True,
    )


def _last_lines(log: Path) -> str:
    """Return the last lines of a log that show an error, or else its last lines."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    wrong = [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception", "rror:"))]
    return "\n".join((wrong or lines)[-5:])


def _refuse_used(port: int) -> None:
    """Raise BrokerMisused if the broker could not listen on that port."""
    with socket.socket() as looking:
        looking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            looking.bind(("127.0.0.1", port))
        except OSError as error:
            hint = (
                f"a broker takes its port and {CONTROLLER:,} above, a secure one {SASL_TLS:,} and {TLS:,} too"
            )
            raise BrokerMisused(
                f"port {port} is not available: {os.strerror(error.errno or 0)} ({hint})"
            ) from None


def _format_once(folder: Folder, identity: BrokerIdentity, java: str, jars: Path) -> None:
    """Format the data folder with Kafka's tool, unless an earlier start did."""
    if folder.identity() is not None:
        return
    shutil.rmtree(folder.data, ignore_errors=True)
    if identity.secure:
        write_secret(folder.password_file, secrets.token_urlsafe(24) + "\n")
    folder.write_settings(identity, identity.port + CONTROLLER, secrets.token_urlsafe(24))
    arguments = ["format", "--standalone", "--cluster-id", _random_id(), "--config", folder.settings.name]
    users = folder.path / "users.arguments"  # the users are in a file, as everyone can see a command line
    if identity.secure:
        admin = f"[name={ADMIN},password={folder.password()}]"
        write_secret(users, "".join(f"--add-scram\n{kind}={admin}\n" for kind in _SCRAM))
        arguments.append(f"@{users.name}")
    with folder.log.open("w") as log_file:
        result = subprocess.run(  # noqa: S603 # arguments of our own
            kafka_command(java, jars, "kafka.tools.StorageTool", *arguments),
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    users.unlink(missing_ok=True)
    if result.returncode != 0:
        raise BrokerError(
            f"the broker's folder could not be formatted; {folder.log}:\n{_last_lines(folder.log)}"
        )


def _random_id() -> str:
    """Return 16 random bytes in Kafka's text form, never one that looks like an option."""
    while (random_id := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return random_id


_LOCK_PATIENCE = 0.2
_LOCK_PAUSE = 0.02


def take(path: Path) -> int | None:
    """Return a descriptor that holds the lock, to pass on and then close; None if the lock is held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + _LOCK_PATIENCE  # is_held takes the lock for a moment, too
    while not _locked(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > end:
            os.close(descriptor)
            return None
        time.sleep(_LOCK_PAUSE)
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
