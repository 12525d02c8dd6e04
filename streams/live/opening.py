"""Opens and checks a node process's topics, on the mesh broker and on its own."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from nodes.machine.time_slots import TimeSlots
from streams.bus.kafka import KafkaBus
from streams.bus.preflight import check_clusters, preflight
from streams.bus.rights import Access, access_of_all, node_on_mesh
from streams.bus.topic_specs import data_specs, mesh_specs
from streams.codec.topics import DataTopics
from streams.live.outputs import Decisions, Predictions
from streams.mesh.file import MeshFile
from streams.mesh.settings.node import FileSettings
from streams.runtime.kafka import opened, reached
from streams.runtime.process import FLUSH, Stop

LOGGER = logging.getLogger("mirrormesh.node")


def reach_brokers(file: MeshFile, names: Sequence[str], stop: Stop) -> None:
    """Wait until both brokers answer. Raises Stopped, Denied, MeshFileError if they are one, unstated."""
    brokers = {name: file.brokers(name) for name in names}
    addresses = {
        file.mesh_broker,
        *(broker for node_brokers in brokers.values() for broker in (node_brokers.mesh, node_brokers.data)),
    }
    check_clusters(file, brokers, {broker: reached(broker, stop) for broker in addresses})


def open_mesh(file: MeshFile, names: Sequence[str], closing: ExitStack) -> KafkaBus:
    """Open the mesh broker's topics of the nodes, after the preflight. Raises PreflightFailed, BusError."""
    bus = opened(file.brokers(names[0]).mesh, _on_mesh(file, names), mesh_specs(file.resolved))
    closing.callback(bus.close)
    closing.callback(bus.flush, FLUSH)
    return bus


def check_mesh(file: MeshFile, names: Sequence[str]) -> None:
    """Check what `open_mesh` opens. Raises PreflightFailed, Unreachable."""
    preflight(file.brokers(names[0]).mesh, _on_mesh(file, names), {}, specs=mesh_specs(file.resolved))


def _on_mesh(file: MeshFile, names: Sequence[str]) -> Access:
    meshes = [(name, file.resolved.node(name).context) for name in names]
    return access_of_all(
        node_on_mesh(mesh.topics, name, mesh.expected, mesh.targets) for name, mesh in meshes
    )


def open_decisions(file: MeshFile, names: Sequence[str], closing: ExitStack) -> dict[str, Decisions]:
    """Open the topics of the nodes' decisions on their data broker. Raises BusError."""
    topics = {name: DataTopics(name).decisions for name in names}
    bus = _data_bus(file, topics, closing, paced=True)
    slots = file.resolved.slots()
    begins = slots.begin if isinstance(slots, TimeSlots) else None
    return {name: Decisions(bus, topic, file.mesh.run, begins) for name, topic in topics.items()}


def open_predictions(file: MeshFile, names: Sequence[str], closing: ExitStack) -> dict[str, Predictions]:
    """Open the topics of predictions, of the nodes that make any, on their data broker. Raises BusError."""
    topics = {name: DataTopics(name).predictions for name in names if file.own(name).predictions}
    if not topics:
        return {}
    bus = _data_bus(file, topics, closing)
    return {name: _predictions(file, name, topic, bus) for name, topic in topics.items()}


def _predictions(file: MeshFile, node: str, topic: str, bus: KafkaBus) -> Predictions:
    source = file.own(node).source
    classes: tuple[str, ...] = ()
    if file.mesh.loss_of(node).softmax is not None and isinstance(source, FileSettings):
        classes = source.record.label.classes or ()
    learner = file.resolved.node(node).learner
    return Predictions(bus, topic, file.mesh.run, learner.loss, classes, learner.algorithm.observed)


def _data_bus(
    file: MeshFile, topics: Mapping[str, str], closing: ExitStack, *, paced: bool = False
) -> KafkaBus:
    """Open a topic of each node."""
    specs = {name: data_specs(file.mesh, name) for name in topics}
    largest = {spec.name: spec.largest for topic_specs in specs.values() for spec in topic_specs}
    broker = file.brokers(next(iter(topics))).data
    bus = KafkaBus(broker, {topic: largest[topic] for topic in topics.values()}, paced=paced)
    closing.callback(bus.close)
    closing.callback(_flush, bus, ", ".join(topics.values()))
    return bus


def _flush(bus: KafkaBus, topics: str) -> None:
    """Wait for the last records, and say how many the broker has not taken."""
    if not bus.flush(FLUSH / 2):
        LOGGER.warning("%s: %d records were not written: the broker has not taken them", topics, bus.waiting)
