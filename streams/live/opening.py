"""Opens and checks a node process's topics, on the mesh broker and on its own."""

from contextlib import ExitStack

from nodes.losses.losses import Loss
from streams.bus.access import node_on_mesh
from streams.bus.kafka import KafkaBus
from streams.bus.preflight import check_clusters
from streams.bus.topic_specs import data_specs, mesh_specs
from streams.codec.topics import DataTopics
from streams.live.outputs import Decisions, Predictions
from streams.live.process import opened, reached
from streams.live.start import FLUSH
from streams.live.stopping import Stop
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Surroundings
from streams.mesh.settings.node import FileSettings


def reach_brokers(file: MeshFile, node: str, stop: Stop) -> None:
    """Wait until both brokers answer. Raises Stopped, Denied, MeshFileError if they are one, unstated."""
    brokers = file.brokers(node)
    asked = {file.mesh_broker, brokers.mesh, brokers.data}
    check_clusters(file, {node: brokers}, {broker: reached(broker, stop) for broker in asked})


def open_mesh(file: MeshFile, node: str, mesh: Surroundings, closing: ExitStack) -> KafkaBus:
    """Open the mesh broker's topics of the node, after the preflight. Raises PreflightFailed, BusError."""
    access = node_on_mesh(mesh.topics, node, mesh.expected, mesh.targets)
    bus = opened(file.brokers(node).mesh, access, mesh_specs(file.resolved))
    closing.callback(bus.close)
    closing.callback(bus.flush, FLUSH)
    return bus


def open_decisions(file: MeshFile, node: str, closing: ExitStack) -> Decisions:
    """Open the topic of the node's decisions on its data broker. Raises BusError."""
    topic = DataTopics(node).decisions
    return Decisions(_data_bus(file, node, topic, closing, paced=True), topic, file.mesh.run)


def open_predictions(file: MeshFile, node: str, loss: Loss, closing: ExitStack) -> Predictions:
    """Open the topic of the node's predictions on its data broker. Raises BusError."""
    topic = DataTopics(node).predictions
    source = file.own(node).source
    classes: tuple[str, ...] = ()
    if file.mesh.loss.softmax is not None and isinstance(source, FileSettings):
        classes = source.record.label.classes or ()
    return Predictions(_data_bus(file, node, topic, closing), topic, file.mesh.run, loss, classes)


def _data_bus(file: MeshFile, node: str, topic: str, closing: ExitStack, *, paced: bool = False) -> KafkaBus:
    largest = {spec.name: spec.largest for spec in data_specs(file.mesh, node)}
    bus = KafkaBus(file.brokers(node).data, {topic: largest[topic]}, paced=paced)
    closing.callback(bus.close)
    closing.callback(bus.flush, FLUSH / 2)
    return bus
