"""Starts and stops the development broker, and tells whether it runs."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streams.tools.broker.folder import SASL_TLS, TLS, BrokerIdentity, Folder
from streams.tools.broker.java import BrokerError, BrokerMisused, Say, find_jars, find_java
from streams.tools.broker.launch import is_held, last_lines, launch, prepare, take

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

    `secure`: with users, certificates and ACLs, the user `admin` with the password in `password_file`, and
    TLS at two more addresses; otherwise open to every process of this machine. `pid` is None while it does
    not run or is being started.
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
            prepare(place, BrokerIdentity(last.secure, port or last.port), java, jars)
            launched = True
            launch(place, java, jars, lock)
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
            raise BrokerError(f"the broker {failure}; {place.log}:\n{last_lines(place.log)}")
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
    """Ask the broker to end, kill it if it does not, and wait until it has."""
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
