"""A broker's folder: its kind and port, settings, log, data and password, and the certificates made in it."""

import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from streams.mesh.errors import naming
from streams.mesh.settings.keys import lifetime
from streams.tools.broker.java import BrokerMisused, deployed

ADMIN = "admin"
CONTROLLER, SASL_TLS, TLS = 1_000, 2_000, 3_000
"""The distances from the port for clients to the ports of the controller, and of TLS on a secure broker."""


class BrokerIdentity(NamedTuple):
    """The lasting facts of a broker, known even when it does not run."""

    secure: bool
    port: int

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports on which it listens."""
        above = (0, CONTROLLER, SASL_TLS, TLS) if self.secure else (0, CONTROLLER)
        return tuple(self.port + step for step in above)


@dataclass(frozen=True, slots=True)
class Folder:
    """The files in the folder `path`."""

    path: Path

    @property
    def lock(self) -> Path:
        """The lock (streams.tools.broker.broker); the first file created."""
        return self.path / "broker.lock"

    @property
    def log(self) -> Path:
        """The broker's log; that of the previous start is broker.log.old."""
        return self.path / "broker.log"

    @property
    def data(self) -> Path:
        """The topics."""
        return self.path / "data"

    @property
    def settings(self) -> Path:
        """The current settings, with passwords; rewritten by every start."""
        return self.path / "server.properties"

    @property
    def password_file(self) -> Path:
        """The file with the password of a secure broker's user `admin`, created once."""
        return self.path / "admin.password"

    @property
    def ca(self) -> Path:
        """The certificate of a secure broker's CA, created once."""
        return self.path / "ca.crt"

    @property
    def ca_key(self) -> Path:
        """The key of that CA, which certifies users."""
        return self.path / "ca.key"

    @property
    def certificate(self) -> Path:
        """The broker's own key and certificate. A start renews them before they expire."""
        return self.path / "server.pem"

    @property
    def _identity(self) -> Path:
        return self.path / "broker.json"

    @property
    def _pid(self) -> Path:
        return self.path / "broker.pid"

    def claim(self) -> None:
        """Create the folder if missing. Raises BrokerMisused if it holds anything else."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise BrokerMisused(
                f"{self.path}: is not a folder: must be a broker's, empty, or not there yet"
            ) from None
        if not self.lock.exists() and any(self.path.iterdir()):
            raise BrokerMisused(
                f"{self.path}: holds other files: must be a broker's, empty, or not there yet"
            )

    def identity(self) -> BrokerIdentity | None:
        """Return the identity written last; None if no broker was created here."""
        try:
            stored = json.loads(self._identity.read_text("utf-8"))
            return BrokerIdentity(bool(stored["secure"]), int(stored["port"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError):
            raise BrokerMisused(f"{self._identity}: is not as it was written: take another folder") from None

    def write_identity(self, identity: BrokerIdentity) -> None:
        """Write the identity, whole or not at all; from then on the folder holds a broker."""
        new = self._identity.with_suffix(".new")
        with naming(new):
            new.write_text(json.dumps(identity._asdict()) + "\n", "utf-8")
        new.replace(self._identity)

    def pid(self) -> int | None:
        """Return the process id written last: that of the running broker if the lock is held."""
        try:
            return int(self._pid.read_text("ascii"))
        except (FileNotFoundError, ValueError):  # the broker is being started, or the file is being written
            return None

    def forget_pid(self) -> None:
        """Remove the previous start's process id. A broker is ready only after it has written its own."""
        self._pid.unlink(missing_ok=True)

    def said(self) -> bytes:
        """Return the content of the log; empty if there is no log."""
        try:
            return self.log.read_bytes()
        except FileNotFoundError:  # a start has renamed it, and its broker has not begun a new one
            return b""

    def put_log_away(self) -> None:
        """Rename the log, so that a new one begins."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.old"))

    def write_settings(
        self, identity: BrokerIdentity, controller_port: int, controller_password: str
    ) -> None:
        """Write the settings for a start; a secure broker's password and certificates must exist."""
        kind = "secure" if identity.secure else "plain"
        text = "".join(deployed(f"{name}.properties").read_text("utf-8") for name in ("common", kind))
        filled: dict[str, object] = {"port": identity.port, "controller_port": controller_port}
        if identity.secure:
            filled |= {"admin_password": self.password(), "controller_password": controller_password}
            filled |= {"sasl_tls_port": identity.port + SASL_TLS, "tls_port": identity.port + TLS}
            filled |= {"certificate": self.certificate.name, "ca": self.ca.name}
        write_secret(self.settings, Template(text).substitute(filled))
        logging_settings = self.path / "log4j2.yaml"
        with naming(logging_settings):
            shutil.copyfile(deployed("log4j2.yaml"), logging_settings)

    def password(self) -> str:
        """Return the password of the user `admin`."""
        return self.password_file.read_text("ascii").strip()


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with naming(path), os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # an existing file may be readable for others
        file.write(text)


# The CA of a secure development broker, its own certificate, and those of its users.

if TYPE_CHECKING:
    import trustme

NAMES = ("localhost", "127.0.0.1")
"""The names of the development broker, which its certificate must have."""
DAYS = 365.0
"""The number of days for which a certificate is valid."""
_CA = "ca"
_RENEWED = timedelta(days=30)


class Pair(NamedTuple):
    """The paths of a certificate and of its key."""

    certificate: Path
    key: Path


def ensure_certificates(folder: Folder) -> None:
    """Make the CA once, and the broker's certificate if there is none or it expires within a month."""
    if not folder.ca_key.exists():
        import trustme  # noqa: PLC0415 # for secure brokers alone

        authority = trustme.CA(organization_name="mirrormesh: a broker for development")
        write_secret(folder.ca_key, authority.private_key_pem.bytes().decode())
        with naming(folder.ca):
            folder.ca.write_bytes(authority.cert_pem.bytes())
    if folder.certificate.exists() and lifetime(str(folder.certificate))[1] > datetime.now(UTC) + _RENEWED:
        return
    certificate, key = issued(_authority(folder), *NAMES)
    write_secret(folder.certificate, key + certificate)


def certify(folder: Path, user: str, output: Path) -> tuple[Pair, Path]:
    """Write a certificate for a user of the secure broker in `folder`, its key, and the CA's certificate.

    Returns the paths of the pair and of the CA's certificate. Raises BrokerMisused if no secure broker was
    started there, or if the user's name is not allowed, OSError.
    """
    place = Folder(folder.absolute())
    if not place.ca_key.exists():
        raise BrokerMisused(f"{place.path}: has no CA: must be the folder of a broker started with --secure")
    if (
        not user
        or not all(character.isalnum() or character in "-_." for character in user)
        or user.startswith(".")
    ):
        raise BrokerMisused(f"{user!r}: must be a user's name, of letters, digits, - . and _")
    if user.lower() == _CA:
        raise BrokerMisused(f"{user}: is what the CA's own certificate is called: must be another name")
    output.mkdir(parents=True, exist_ok=True)
    pair, ca = Pair(output / f"{user}.crt", output / f"{user}.key"), output / f"{_CA}.crt"
    certificate, key = issued(_authority(place), f"{user}@localhost", user=user)
    write_secret(pair.key, key)
    with naming(pair.certificate):
        pair.certificate.write_text(certificate)
    with naming(ca):
        ca.write_bytes(place.ca.read_bytes())
    return pair, ca


def issued(
    authority: "trustme.CA",
    *names: str,
    user: str | None = None,
    days: float = DAYS,
    begins: datetime | None = None,
) -> tuple[str, str]:
    """Return a certificate, followed by those above it, and its key in PKCS#8, the only form that Kafka
    reads.

    `names`: those of a host, or a user's address. The certificate expires `days` from now.
    """
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 # as above
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    ends = datetime.now(UTC) + timedelta(days=days)
    certificate = authority.issue_cert(*names, common_name=user, not_before=begins, not_after=ends)
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(blob.bytes() for blob in certificate.cert_chain_pems).decode(), text.decode()


def _authority(folder: Folder) -> "trustme.CA":
    import trustme  # noqa: PLC0415 # as above

    return trustme.CA.from_pem(folder.ca.read_bytes(), folder.ca_key.read_bytes())
