"""One party's own part of a mesh file: its source of records and its brokers. Nobody else sees it."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from streams.mesh.settings.base import Address, Settings, address, refusal, tagged
from streams.mesh.settings.files import (
    FilePath,
    FromEnvironment,
    RecordBytes,
    TakeSettings,
    check_shuffle,
)
from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings

FromEnvironmentText = Annotated[str, Field(min_length=1), FromEnvironment]


class FileSettings(Settings):
    """Records in a file: lines, unpacked if it ends in `.gz`, or with `-` on standard input; or Parquet rows.

    Without a path they come from a broker only. `shuffle` orders them by the mesh's seed, before `take`. CSV
    starts with a header row, unless `columns` names the columns.
    """

    kind: Literal["csv", "json-lines", "parquet"]
    path: FilePath = None
    record: SchemaSettings = Field(alias="schema")
    columns: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None
    take: TakeSettings | None = None
    shuffle: bool = False
    max_record_bytes: RecordBytes = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.columns is not None and self.kind != "csv":
            raise refusal("goes with kind csv", "columns")
        if self.path == "-" and self.kind == "parquet":
            raise refusal("must be the path of a Parquet file, not standard input", "path")
        repeated = [name for k, name in enumerate(self.columns or ()) if name in (self.columns or ())[:k]]
        if repeated:
            raise refusal(f"{repeated[0]} is named twice", "columns")
        check_shuffle(self.path, shuffle=self.shuffle)
        return self


class LocalisationSettings(Settings):
    """A simulated sensor that measures its distance to a moving target, from the mesh's seed.

    `position`: where it stands; by default sensors stand evenly on a circle of radius 1.5 around 0. `truth`:
    records also hold the target's position, for the owner's metrics only.
    """

    kind: Literal["localisation"]
    position: Annotated[tuple[float, float] | None, Field(strict=False)] = None
    truth: bool = False
    max_record_bytes: RecordBytes = None


class OwnSourceSettings(Settings):
    """A user's own source (`streams.mesh.plugins`). `shuffle` and `take` as for files."""

    kind: Literal["own"]
    name: Annotated[str, Field(min_length=1)]
    take: TakeSettings | None = None
    shuffle: bool = False
    max_record_bytes: RecordBytes = None


HeldOutSettings = Annotated[
    Annotated[FileSettings | LibsvmSettings | CsrSettings, Field(discriminator="kind")],
    tagged("kind", "csv", "json-lines", "parquet", "libsvm", "csr"),
]
SourceSettings = Annotated[
    Annotated[
        FileSettings | LibsvmSettings | CsrSettings | LocalisationSettings | OwnSourceSettings,
        Field(discriminator="kind"),
    ],
    tagged("kind", "csv", "json-lines", "parquet", "libsvm", "csr", "localisation", "own"),
]


class BrokerSettings(Settings):
    """How to reach a broker. `${NAME}` is replaced from the environment."""

    model_config = ConfigDict(hide_input_in_errors=True)

    servers: FromEnvironmentText
    username: FromEnvironmentText | None = None
    password: Annotated[SecretStr, Field(strict=False), FromEnvironment] | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise refusal("must have both username and password, or neither")
        return self


class CommonBrokers(Settings):
    """`mesh`: the broker that all share. `data`: the party's own; the same only with `trust_broker`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    mesh: BrokerSettings
    data: BrokerSettings | None = None
    trust_broker: bool = False

    @model_validator(mode="after")
    def _apart_unless_trusted(self) -> Self:
        shared = self.data is not None and _servers(self.data) & _servers(self.mesh)
        if shared and not self.trust_broker:
            raise refusal("data and mesh are the same broker: must be true, or two brokers", "trust_broker")
        return self


class BrokersSettings(CommonBrokers):
    """The brokers of a node."""

    data: BrokerSettings


def _servers(broker: BrokerSettings) -> set[str]:
    return {server.strip() for server in broker.servers.split(",")}


def _address(value: object) -> object:
    """Read a port, or `address:port`."""
    try:
        return address(str(value)) if isinstance(value, str | int) else address("")
    except ValueError as error:
        raise refusal(str(error)) from None


class NodeSettings(Settings):
    """One party's own part. `private_endpoint`: where to serve its private metrics, if anywhere.

    `predictions`: whether to write a prediction for each record to the party's own broker.
    """

    source: SourceSettings | None = None
    brokers: BrokersSettings | None = None
    private_endpoint: Annotated[Address | None, BeforeValidator(_address)] = None
    predictions: bool = False
