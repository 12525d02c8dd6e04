"""Certificates and keys of tests' own."""

from datetime import UTC, datetime, timedelta

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """A CA; it writes what it issues into `folder`."""

    def __init__(self, folder, name="ca"):
        self.folder, self._ca = folder, trustme.CA(organization_name=name)
        self.ca = folder / f"{name}.crt"
        self._ca.cert_pem.write_to_path(self.ca)

    def issue(self, *hosts, user=None, name=None, days=30.0, begins=None):
        """Return the paths of a certificate, with those above it, and its key."""
        name = name or user or hosts[0]
        ends = datetime.now(UTC) + timedelta(days=days)
        made = self._ca.issue_cert(*hosts, common_name=user, not_before=begins, not_after=ends)
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        made.private_key_pem.write_to_path(key)
        return certificate, key


def encrypted(key, password):
    """Return the path of the key, encrypted."""
    own = load_pem_private_key(key.read_bytes(), None)
    path = key.with_suffix(".encrypted.key")
    closed = BestAvailableEncryption(password.encode())
    path.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed))
    return path
