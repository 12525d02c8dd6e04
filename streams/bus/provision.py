"""Creates the topics of a mesh file, or checks existing ones. Repeating it is harmless.

Everything is compared before anything is created. A topic that differs is never changed: its owner must. But
shared topics get the settings without which a record may grow without bound in its readers.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from streams.bus.admin import Admin, TopicDescription, differences
from streams.bus.preflight import check_clusters
from streams.bus.topic_specs import TopicSpec
from streams.mesh.file import AnyFile, MeshFileError
from streams.mesh.settings.brokers import BrokerSettings

Side = Literal["mesh", "data"]
"""The mesh broker, which its operator provisions, or the data brokers, each of which its party does."""


class Differs(Exception):
    """Existing topics differ from those of the mesh file: `lines`, one per difference."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The result on one broker: topics created (with `dry_run`: that would be), and topics found right.

    `bounded`: a line for each setting of an existing topic that was changed, or would be.
    """

    label: str
    servers: str
    created: tuple[TopicSpec, ...]
    existing: tuple[TopicSpec, ...]
    bounded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics of one party, or the shared ones, on one broker."""

    label: str
    admin: Admin
    specs: tuple[TopicSpec, ...]
    there: Mapping[str, TopicDescription]

    @property
    def missing(self) -> tuple[TopicSpec, ...]:
        return tuple(spec for spec in self.specs if spec.name not in self.there)

    @property
    def unbounded(self) -> dict[TopicSpec, list[str]]:
        lines_by_spec = {
            spec: spec.unbounded(self.there[spec.name].configs)
            for spec in self.specs
            if spec.name in self.there
        }
        return {spec: lines for spec, lines in lines_by_spec.items() if lines}

    def differences(self, *, partitioned: bool) -> list[str]:
        unbounded = self.unbounded
        named_lines = []
        for spec in self.specs:
            topic = self.there.get(spec.name)
            if topic is not None:
                mended = replace(topic, configs=topic.configs | (spec.bounds if spec in unbounded else {}))
                named_lines += [
                    (spec.name, text) for text in differences(spec, mended, partitioned=partitioned)
                ]
        return [self.line(name, text) for name, text in named_lines]

    def line(self, name: str, text: str) -> str:
        return f"{self.label} {self.admin.servers}: topic {name}: {text}"


def provision(file: AnyFile, *, dry_run: bool = False, only: Side | None = None) -> tuple[Provisioned, ...]:
    """Create missing topics on the mesh broker, and on the data brokers of parties whose own part is here.

    `only`: on one side. Raises MeshFileError if a node's brokers are missing, Differs, BusError if a broker
    refuses.
    """
    labelled_brokers = sides(file, only)
    brokers = {} if only is not None else {name: file.brokers(name) for name in file.on_topics}
    with ExitStack() as stack:
        admins: dict[BrokerSettings, Admin] = {}
        for broker in [
            *(broker for _, broker in labelled_brokers),
            *(node_brokers.mesh for node_brokers in brokers.values()),
        ]:
            if broker not in admins:
                admins[broker] = stack.enter_context(Admin(broker))
        if only is None:
            check_clusters(file, brokers, {broker: admin.cluster for broker, admin in admins.items()})
        topic_sides = list(_topics(file, labelled_brokers, admins))
        wrong = [line for side in topic_sides for line in side.differences(partitioned=file.is_partitioned)]
        if wrong:
            raise Differs(wrong)
        return tuple(_done(side, dry_run=dry_run) for side in topic_sides)


def sides(file: AnyFile, only: Side | None = None) -> list[tuple[str | None, BrokerSettings]]:
    """Return the mesh broker (name None), and the data broker of each party that has one here.

    Raises MeshFileError if a broker is missing.
    """
    labelled_brokers: list[tuple[str | None, BrokerSettings]] = []
    lines: list[str] = []
    if only != "data":
        labelled_brokers.append((None, file.mesh_broker))
    for name in file.on_topics if only != "mesh" else ():
        try:
            labelled_brokers.append((name, file.brokers(name).data))
        except MeshFileError as error:
            lines += error.lines
    if lines:
        raise MeshFileError(lines)
    return labelled_brokers


def label(node: str | None) -> str:
    """Return a broker's name for people."""
    return "mesh broker" if node is None else f"data broker of {node}"


def specs_of(file: AnyFile, name: str | None) -> tuple[TopicSpec, ...]:
    """Return the topics of the mesh broker (None), or of a party's own."""
    specs: tuple[TopicSpec, ...] = file.kind.topics(file, name)
    return specs


def _topics(
    file: AnyFile,
    wanted: Iterable[tuple[str | None, BrokerSettings]],
    admins: Mapping[BrokerSettings, Admin],
) -> Iterable[_Topics]:
    for node, broker in wanted:
        specs = specs_of(file, node)
        admin = admins[broker]
        yield _Topics(label(node), admin, specs, admin.topics(spec.name for spec in specs))


def _done(side: _Topics, *, dry_run: bool) -> Provisioned:
    missing = side.missing
    created = missing if dry_run or not missing else tuple(side.admin.create(missing))
    existing = tuple(spec for spec in side.specs if spec not in created)
    unbounded = side.unbounded
    if unbounded and not dry_run:
        side.admin.bound(unbounded)
    bounded = tuple(side.line(spec.name, text) for spec, lines in unbounded.items() for text in lines)
    return Provisioned(side.label, side.admin.servers, created, existing, bounded)
