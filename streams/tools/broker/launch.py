"""Starts the broker's process: checks the ports, formats the folder once, and leaves Java running.

The starter takes the broker's lock, the broker inherits it, and the broker's end frees it, whatever the
cause. So a broker runs if and only if its lock is held, and a reused process id cannot mislead.
"""

import base64
import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
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
from streams.tools.broker.java import BrokerError, BrokerMisused, kafka_command

# the outer sh ends at once, so nobody needs to wait for Java. The inner one writes the process id itself, as
# the starter may be interrupted at that moment; the log is there first, as who finds the process id reads it
_SHELL = """/bin/sh -c 'exec >>broker.log 2>&1; echo $$ >broker.pid; exec "$@"' sh "$@" &"""
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def prepare(folder: Folder, identity: BrokerIdentity, java: str, jars: Path) -> None:
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


def launch(folder: Folder, java: str, jars: Path, lock: int) -> None:
    """Start Java in its own session; it inherits `lock`. Its process id comes later; it is not ready yet."""
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


def last_lines(log: Path) -> str:
    """Return the last lines of a log that show an error, otherwise the last ones."""
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
    users = folder.path / "users.arguments"  # in a file, as everyone can see a command line
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
            f"the broker's folder could not be formatted; {folder.log}:\n{last_lines(folder.log)}"
        )


def _random_id() -> str:
    """Return 16 random bytes in Kafka's text form, never one that looks like an option."""
    while (random_id := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return random_id


_PATIENCE = 0.2
_PAUSE = 0.02


def take(path: Path) -> int | None:
    """Return a descriptor that holds the lock, to pass on and then close; None if the lock is held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + _PATIENCE  # is_held also takes it for a moment
    while not _locked(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > end:
            os.close(descriptor)
            return None
        time.sleep(_PAUSE)
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
