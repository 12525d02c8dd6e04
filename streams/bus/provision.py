"""Creates the topics of a mesh file, or checks existing ones. Repeating it is harmless.

Everything is compared before anything is created. A topic that differs is never changed: its owner must.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from streams.bus.admin import Admin, Topic, differences
from streams.bus.preflight import check_clusters
from streams.bus.topic_specs import TopicSpec, data_specs, mesh_specs
from streams.mesh.file import MeshFile, MeshFileError
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings


class Differs(Exception):
    """Existing topics differ from those of the mesh file: `lines`, one per difference."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The result on one broker: topics created (with `dry_run`: that would be), and topics found right."""

    label: str
    servers: str
    created: tuple[TopicSpec, ...]
    existing: tuple[TopicSpec, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """The topics of one party, or the shared ones, on one broker."""

    label: str
    admin: Admin
    specs: tuple[TopicSpec, ...]
    there: Mapping[str, Topic]

    @property
    def missing(self) -> tuple[TopicSpec, ...]:
        return tuple(spec for spec in self.specs if spec.name not in self.there)

    def differences(self, *, by_time: bool) -> list[str]:
        found = [
            (spec.name, text)
            for spec in self.specs
            if spec.name in self.there
            for text in differences(spec, self.there[spec.name], by_time=by_time)
        ]
        return [f"{self.label} {self.admin.servers}: topic {name}: {text}" for name, text in found]


def provision(file: MeshFile, *, dry_run: bool = False) -> tuple[Provisioned, ...]:
    """Create missing topics on the mesh broker, and on the data brokers of nodes whose own part is here.

    Raises MeshFileError if a node's brokers are missing, Differs, BusError if a broker refuses.
    """
    brokers = _brokers(file)
    with ExitStack() as stack:
        admins: dict[BrokerSettings, Admin] = {}
        for broker in [
            file.mesh_broker,
            *(side for own in brokers.values() for side in (own.mesh, own.data)),
        ]:
            if broker not in admins:
                admins[broker] = stack.enter_context(Admin(broker))
        check_clusters(file, brokers, {broker: admin.cluster for broker, admin in admins.items()})
        sides = list(_sides(file, brokers, admins))
        wrong = [line for side in sides for line in side.differences(by_time=file.mesh.slots.by == "time")]
        if wrong:
            raise Differs(wrong)
        return tuple(_done(side, dry_run=dry_run) for side in sides)


def _brokers(file: MeshFile) -> dict[str, BrokersSettings]:
    """Return the brokers of each node whose own part is here. Raises MeshFileError."""
    found: dict[str, BrokersSettings] = {}
    lines: list[str] = []
    for name in file.nodes:
        try:
            found[name] = file.brokers(name)
        except MeshFileError as error:
            lines += error.lines
    if lines:
        raise MeshFileError(lines)
    return found


def _sides(
    file: MeshFile, brokers: Mapping[str, BrokersSettings], admins: Mapping[BrokerSettings, Admin]
) -> Iterable[_Side]:
    wanted = [("mesh broker", file.mesh_broker, mesh_specs(file.resolved))]
    wanted += [
        (f"data broker of {name}", own.data, data_specs(file.mesh, name)) for name, own in brokers.items()
    ]
    for label, broker, specs in wanted:
        admin = admins[broker]
        yield _Side(label, admin, specs, admin.topics(spec.name for spec in specs))


def _done(side: _Side, *, dry_run: bool) -> Provisioned:
    missing = side.missing
    made = missing if dry_run or not missing else tuple(side.admin.create(missing))
    found = tuple(spec for spec in side.specs if spec not in made)
    return Provisioned(side.label, side.admin.servers, made, found)
