"""How to reach the brokers: addresses, users, passwords and certificates."""

import ssl
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, model_validator

from streams.mesh.settings.base import Settings, refusal
from streams.mesh.settings.files import FromEnvironment
from streams.mesh.settings.keys import (
    FileName,
    PlainSecret,
    are_read,
    check_ca,
    check_pair,
    private_key,
    read_secrets,
)


def _one_line(text: str) -> str:
    """Refuse a line break and other control characters.

    The text is written into a client's settings, systemd units and manifests, where it could add a line.
    """
    if text.isprintable():
        return text
    raise refusal("must be one line of text, without control characters")


FromEnvironmentText = Annotated[str, Field(min_length=1), FromEnvironment, AfterValidator(_one_line)]


def _url(text: str) -> str:
    for address in text.split(","):
        parts = urlsplit(address.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise refusal("must be http:// or https:// with a host, or several with commas between them")
        if parts.username is not None or parts.password is not None:
            raise refusal("must have no user in it: username and password are keys of their own")
    return ",".join(address.strip() for address in text.split(","))


_OF_USERS = ("mechanism", "username", "password", "password_file")
_OF_TLS = ("ca", "certificate", "key", "key_password", "key_password_file", "verify_host_name")


def _security(value: Mapping[str, Any]) -> str:
    """Return the value of `security` that the other keys imply. It is called if the key is not given."""
    user = value.get("username") is not None
    tls = any(value.get(key) is not None for key in ("ca", "certificate"))
    return ("sasl-tls" if tls else "sasl") if user else ("tls" if tls else "plaintext")


class BrokerSettings(Settings):
    """The connection to a broker. `${NAME}` is replaced from the environment."""

    model_config = ConfigDict(hide_input_in_errors=True)

    servers: FromEnvironmentText
    """`host:port`, or several with commas between them."""
    security: Literal["plaintext", "sasl", "tls", "sasl-tls"] | None = None
    """`sasl`: with users, not encrypted; `tls`: encrypted, with a certificate for users; `sasl-tls`: both.
    Not given: `sasl` with `username`, `tls` with `ca` or `certificate`, `sasl-tls` with both, else
    `plaintext`."""
    mechanism: Literal["scram-sha-512", "scram-sha-256", "plain"] = "scram-sha-512"
    """The login mechanism. `plain` sends the password itself, so it needs `sasl-tls`."""
    username: FromEnvironmentText | None = None
    """The user, with a password. Not given: a broker without users."""
    password: PlainSecret | None = None
    """The password, best as a variable of the environment (`${NAME}`). Not given: `password_file`, or no
    user."""
    password_file: FileName | None = None
    """The path of a file that holds the password in one line. Not given: `password`, or no user."""
    ca: FileName | None = None
    """The path of the certificates (PEM) of the CAs that the broker's certificate may come from. Not given:
    the system's."""
    certificate: FileName | None = None
    """The path of the client's own certificate (PEM), with those between it and the CA. Not given: none is
    shown."""
    key: FileName | None = None
    """The path of the certificate's private key (PEM). Not given: no certificate."""
    key_password: PlainSecret | None = None
    """The password of an encrypted key. Not given: `key_password_file`, or the key is not encrypted."""
    key_password_file: FileName | None = None
    """The path of a file that holds this password in one line. Not given: `key_password`, or no password."""
    signing_key: FileName | None = None
    """The path of the private key (PEM) that signs what is sent to the mesh broker, where `mesh.signatures`
    are `required`; `mirrormesh key` makes it. Not given: nothing can be sent there."""
    verify_host_name: bool = True
    """The broker's certificate must name the host in `servers`. If this is false, anyone with a certificate
    of the CA can pose as the broker, and every process warns of it."""

    @model_validator(mode="before")
    @classmethod
    def _with_secrets(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, Mapping):
            return value
        value = read_secrets(value, ("password", "key_password"), info)
        return {**value, "security": _security(value)} if value.get("security") is None else value

    @model_validator(mode="after")
    def _whole(self, info: ValidationInfo) -> Self:
        self._check_users()
        self._check_tls()
        if self.tls and are_read(info):
            self._check_certificates()
        if self.signing_key is not None and are_read(info):
            private_key(self.signing_key)
        return self

    def _check_users(self) -> None:
        if not self.users:
            for key in _OF_USERS:
                if key in self.model_fields_set and getattr(self, key) is not None:
                    raise refusal("needs a username" if self.username is None else _needs("sasl"), key)
            return
        if self.username is None or self.password is None:
            missing = "username" if self.username is None else "password"
            alternative = "" if missing == "username" else " or password_file"
            raise refusal(f"missing: security {self.security} needs a {missing}{alternative}", missing)
        if self.mechanism == "plain" and not self.tls:
            raise refusal("plain sends the password itself: needs security sasl-tls", "mechanism")
        # measured on a broker: each of these names and passwords works with two of the three Kafka clients
        if self.mechanism != "plain" and set(",=") & set(self.username):
            raise refusal("must have no , and no =: kafka-python fails on them in SCRAM", "username")
        if self.mechanism != "plain" and not self.username.isascii():
            raise refusal("must be ASCII: no client logs in as another by SCRAM", "username")
        if self.password.get_secret_value()[0].isspace():
            raise refusal("must not begin with a blank: librdkafka drops it", "password")

    def _check_tls(self) -> None:
        if not self.tls:
            for key in _OF_TLS:
                if key in self.model_fields_set and getattr(self, key) is not None:
                    raise refusal(_needs("tls"), key)
            return
        if (self.certificate is None) != (self.key is None):
            present, missing = ("key", "certificate") if self.certificate is None else ("certificate", "key")
            raise refusal(f"missing: {present} needs {missing}", missing)
        if self.key_password is not None and self.key is None:
            raise refusal("needs a certificate and its key", "key_password")

    def _check_certificates(self) -> None:
        if self.trusted is None:
            raise refusal("missing: this system has no certificates of CAs", "ca")
        if self.ca is not None:
            check_ca(self.ca)
        if self.certificate is not None and self.key is not None:
            check_pair(self.certificate, self.key, self.key_password)

    @property
    def users(self) -> bool:
        """Whether a user logs in."""
        return self.security in {"sasl", "sasl-tls"}

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted, and the broker shows a certificate."""
        return self.security in {"tls", "sasl-tls"}

    @property
    def knows_writers(self) -> bool:
        """Whether the broker knows who writes: by a password or a certificate."""
        return self.users or self.certificate is not None

    @property
    def protocol(self) -> str:
        """Kafka's name of the security."""
        return {"sasl": "SASL_PLAINTEXT", "tls": "SSL", "sasl-tls": "SASL_SSL"}.get(
            self.security or "", "PLAINTEXT"
        )

    @property
    def trusted(self) -> str | None:
        """The path of the file or folder with the CAs' certificates. All clients use the same path."""
        system = ssl.get_default_verify_paths()
        return self.ca or system.cafile or system.capath


class RegistrySettings(Settings):
    """The connection to a schema registry with the interface of Confluent's. `${NAME}` is replaced from the
    environment.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    url: Annotated[FromEnvironmentText, AfterValidator(_url)]
    """`http://host:port/path` or `https://...`, or several addresses of the same registry with commas between
    them."""
    username: FromEnvironmentText | None = None
    """The user, with a password. Not given: a registry without users."""
    password: PlainSecret | None = None
    """The password, best as a variable of the environment (`${NAME}`). Not given: `password_file`, or no
    user."""
    password_file: FileName | None = None
    """The path of a file that holds the password in one line. Not given: `password`, or no user."""
    ca: FileName | None = None
    """The path of the certificates (PEM) of the CAs that the registry's certificate may come from. Not given:
    those of the package certifi."""

    @model_validator(mode="before")
    @classmethod
    def _with_secrets(cls, value: Any, info: ValidationInfo) -> Any:
        return read_secrets(value, ("password",), info) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _whole(self, info: ValidationInfo) -> Self:
        if (self.username is None) != (self.password is None):
            raise refusal("missing: a user has both", "username" if self.username is None else "password")
        if self.username is not None and ":" in self.username:
            raise refusal("must have no colon, as it ends there in HTTP", "username")
        if self.ca is not None and "https://" not in self.url:
            raise refusal("needs an https:// address", "ca")
        if self.ca is not None and are_read(info):
            check_ca(self.ca)
        return self


def _needs(kind: str) -> str:
    return f"needs security {kind} or sasl-tls"


class CommonBrokers(Settings):
    """The brokers of nodes that do not name their own."""

    model_config = ConfigDict(hide_input_in_errors=True)

    mesh: BrokerSettings
    """The broker that all parties share."""
    data: BrokerSettings | None = None
    """The party's own broker, which carries its records. Not given: each node names its own."""
    trust_broker: bool = False
    """Must be true if `mesh` and `data` are the same broker. That broker then sees the records, and every
    guarantee says so."""

    @model_validator(mode="after")
    def _apart_unless_trusted(self) -> Self:
        shared = self.data is not None and _servers(self.data) & _servers(self.mesh)
        if shared and not self.trust_broker:
            raise refusal("data and mesh are the same broker: must be true, or two brokers", "trust_broker")
        if self.data is not None and self.data.signing_key is not None:
            raise refusal("goes with the mesh broker: must not be given", "data", "signing_key")
        return self


class OwnerBrokersSettings(CommonBrokers):
    """The brokers of an owner."""

    data: BrokerSettings | None = None
    """The owner's own broker, which carries its set where that is a topic. Not given: its set is a file."""


class BrokersSettings(CommonBrokers):
    """The brokers of a node."""

    data: BrokerSettings
    """The party's own broker, which carries its records."""


def _servers(broker: BrokerSettings) -> set[str]:
    return {server.strip() for server in broker.servers.split(",")}
