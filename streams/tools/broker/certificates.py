"""The CA of a secure development broker, its own certificate, and those of its users."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streams.mesh.settings.pem import lifetime
from streams.tools.broker.folder import Folder, write_secret
from streams.tools.broker.java import BrokerMisused

if TYPE_CHECKING:
    import trustme

NAMES = ("localhost", "127.0.0.1")
"""The names of the development broker, which its certificate must have."""
DAYS = 365.0
"""Days that a certificate lasts."""
_CA = "ca"
_RENEWED = timedelta(days=30)


class Pair(NamedTuple):
    """The paths of a certificate and of its key."""

    certificate: Path
    key: Path


def ensure_certificates(folder: Folder) -> None:
    """Make the CA once, and the broker's certificate if there is none or it ends within a month."""
    if not folder.ca_key.exists():
        import trustme  # noqa: PLC0415 # for secure brokers alone

        authority = trustme.CA(organization_name="mirrormesh: a broker for development")
        write_secret(folder.ca_key, authority.private_key_pem.bytes().decode())
        folder.ca.write_bytes(authority.cert_pem.bytes())
    if folder.certificate.exists() and lifetime(str(folder.certificate))[1] > datetime.now(UTC) + _RENEWED:
        return
    certificate, key = issued(_authority(folder), *NAMES)
    write_secret(folder.certificate, key + certificate)


def certify(folder: Path, user: str, output: Path) -> tuple[Pair, Path]:
    """Write a certificate for a user of the secure broker in `folder`, its key, and the CA's certificate.

    Returns the paths of the pair and of the CA's. Raises BrokerMisused if no secure broker was started
    there, or the user's name is none, OSError.
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
    pair.certificate.write_text(certificate)
    ca.write_bytes(place.ca.read_bytes())
    return pair, ca


def issued(
    authority: "trustme.CA",
    *names: str,
    user: str | None = None,
    days: float = DAYS,
    begins: datetime | None = None,
) -> tuple[str, str]:
    """Return a certificate, with those above it, and its key, which Kafka reads in this form (PKCS#8) alone.

    `names`: those of a host, or a user's address. `days` from now it ends.
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
