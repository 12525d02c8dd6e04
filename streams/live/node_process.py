"""A process of one or more nodes of a party, from its start with a mesh file and state folder to its end.

The steps of its start have this order, as each depends on the step before:

1. the journal and its lock (`HostedNode.open`), so that a second process of the node ends before it touches a
   broker; then the schema registry, if the source has one, as the registry may refuse the node;
2. the brokers, the data topic, the mesh's topics: a missing right or topic is named before anything is sent;
3. the line that records the spending (`HostedNode.begin`), durable before any record is learnt from;
4. the hello, so that an older process of the node ends, and then the logs, which give the place to continue
   (`NodeRole.recover`);
5. the loop (`Runner`): messages that an earlier process left unsent, the machine's first event, records.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from nodes.machine.slots import TimeSlots
from streams.bus.bus import BusError
from streams.bus.existing_topic import ExistingTopics
from streams.bus.kafka import KafkaBus
from streams.bus.mesh_log import MeshLog
from streams.bus.preflight import NamedPartitions, Outside, PreflightFailed, check_clusters, preflight
from streams.bus.rights import Access, access_of_all, node_on_data, node_on_mesh, on_existing_topic
from streams.bus.topic_specs import data_specs, mesh_specs
from streams.codec.topics import DataTopics
from streams.live.data.streams import DataStreams
from streams.live.hosted_node import HostedNode
from streams.live.outputs import Decisions, Predictions, SharedBus
from streams.live.serving import Certificates, Endpoints, liveness, run_halves, warn_of_open
from streams.live.spend import NodeOptions
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.base import Address
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import FileSettings, TopicSettings
from streams.runtime.actions import COMMITS, Loop, ProcessWorld
from streams.runtime.kafka import in_a_thread, opened, reached
from streams.runtime.process import (
    BEGINS_AGAIN,
    FLUSH,
    Ask,
    Failed,
    NodeCanStart,
    ProcessExit,
    ServiceManager,
    Stop,
    retry_until_reachable,
)
from streams.runtime.runner import Host, is_orderly
from streams.state.folder import JournalError
from streams.state.journal_file import JournalLocked
from streams.state.spends_topic import SpendsBus, SpendsTopic

LOGGER = logging.getLogger("mirrormesh.node")


def reach_brokers(file: MeshFile, names: Sequence[str], stop: Stop) -> None:
    """Wait until both brokers answer. Raises Stopped, Denied; MeshFileError if both are one, unstated."""
    brokers = {name: file.brokers(name) for name in names}
    addresses = {
        file.mesh_broker,
        *map(file.records_broker, names),
        *map(file.labels_broker, names),
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
    """Check the topics that `open_mesh` opens. Raises PreflightFailed, Unreachable."""
    preflight(file.brokers(names[0]).mesh, _on_mesh(file, names), {}, specs=mesh_specs(file.resolved))


def _on_mesh(file: MeshFile, names: Sequence[str]) -> Access:
    meshes = [(name, file.resolved.node(name).context) for name in names]
    return access_of_all(
        node_on_mesh(mesh.topics, name, mesh.expected, mesh.targets) for name, mesh in meshes
    )


def open_decisions(file: MeshFile, names: Sequence[str], closing: ExitStack) -> dict[str, Decisions]:
    """Open the topics of the nodes' decisions on their data broker. Raises BusError."""
    topics = {name: file.data_topics(name).decisions for name in names}
    bus = _data_bus(file, topics, closing, paced=True)
    slots = file.resolved.slots()
    begins = slots.begin if isinstance(slots, TimeSlots) else None
    run, horizon, last = file.mesh.run, file.mesh.horizon, file.mesh.rounds
    return {
        name: Decisions(bus, topic, run, begins, horizon=horizon, last=last) for name, topic in topics.items()
    }


def open_predictions(file: MeshFile, names: Sequence[str], closing: ExitStack) -> dict[str, Predictions]:
    """Open the topics of predictions, of the nodes that make any, on their data broker. Raises BusError."""
    topics = {name: file.data_topics(name).predictions for name in names if file.own(name).predictions}
    if not topics:
        return {}
    # a step waits for all records of a slot
    bus = SharedBus(_data_bus(file, topics, closing, batches=True))
    return {name: _predictions(file, name, topic, bus) for name, topic in topics.items()}


def _predictions(file: MeshFile, node: str, topic: str, bus: SharedBus) -> Predictions:
    source = file.own(node).source
    classes: tuple[str, ...] = ()
    if file.mesh.loss_of(node).softmax is not None and isinstance(source, FileSettings | TopicSettings):
        classes = source.record.label.classes or ()
    learner = file.resolved.node(node).learner
    return Predictions(bus, topic, file.mesh.run, learner.loss, classes, learner.algorithm.observed)


def _data_bus(
    file: MeshFile,
    topics: Mapping[str, str],
    closing: ExitStack,
    *,
    paced: bool = False,
    batches: bool = False,
) -> KafkaBus:
    """Open a topic of each node; other arguments as in KafkaBus."""
    specs = {name: data_specs(file.mesh, name, file.data_topics(name).source) for name in topics}
    largest = {spec.name: spec.largest for topic_specs in specs.values() for spec in topic_specs}
    broker = file.brokers(next(iter(topics))).data
    bus = KafkaBus(broker, {topic: largest[topic] for topic in topics.values()}, paced=paced, batches=batches)
    closing.callback(bus.close)
    closing.callback(_flush, bus, ", ".join(topics.values()))
    return bus


SLOWEST = 5.0
"""Seconds without an acknowledgement after which a process gives up its last records."""


def _flush(bus: KafkaBus, topics: str) -> None:
    """Wait for the last records' acknowledgements while any arrive; log how many records have none."""
    waiting = bus.waiting
    while not bus.flush(SLOWEST) and bus.waiting < waiting:  # the broker is slow, not away
        waiting = bus.waiting
    if bus.waiting:
        text = "%s: %d records were not written: the broker has not taken them"
        LOGGER.warning(text, topics, bus.waiting, extra=LogEvent.OUTPUT_LOST.of())


FIRST_PAUSE, LONGEST_PAUSE = 5.0, 320.0
"""Seconds between checks of what a node that could not start waits for."""
T = TypeVar("T")


class NodeProcess:
    """One process of the nodes `names`, which share brokers, loop, clients and endpoints, and no state.

    Raises MeshFileError if the file lacks something that a node needs, UsageError for nodes that cannot share
    a process.
    """

    def __init__(self, file: MeshFile, names: Sequence[str], options: NodeOptions) -> None:
        self._file, self._names, self._options = file, tuple(names), options
        for name in names:
            file.refuse_file_labels(name)
        self._brokers, self._records = file.brokers(self._names[0]), file.records_broker(self._names[0])
        check_shared(file, self._names)
        # each `run` makes its own: here a mistake in the file is found before anything is written or sent
        self._nodes = [HostedNode(file, name, options) for name in self._names]
        self._refused: list[HostedNode] = []
        self._pause = FIRST_PAUSE
        self._log = logger(self._names)
        self._private = self._private_endpoint()
        sources = [file.existing_topic(name) for name in self._names]
        lags = {source.topic: self._lag(source) for source in sources if source is not None}
        self._labels = {name: labels for name in self._names if (labels := file.later_labels(name))}
        ages: dict[BrokerSettings, dict[str, float]] = {self._records: {}}
        for name, labels in self._labels.items():
            ages[self._records][file.data_topics(name).records] = labels.after
        for name, labels in self._labels.items():
            kept_for = ages.setdefault(file.labels_broker(name), {})
            kept_for[labels.origin] = max(labels.window, kept_for.get(labels.origin, 0.0))
        self._existing = ExistingTopics(self._records, lags, self._log, ages.pop(self._records))
        self._elsewhere = {
            broker: ExistingTopics(broker, {}, self._log, kept_for) for broker, kept_for in ages.items()
        }

    @staticmethod
    def _lag(source: TopicSettings) -> float | None:
        """Return the longest time that a record waits to be read, including the wait for its label."""
        after = 0.0 if source.labels is None else source.labels.after
        return None if source.lag is None else source.lag + after

    def run(self, stop: Stop) -> None:
        """Run until asked to stop or every node has ended. Call it again after one of `BEGINS_AGAIN`.

        If one of several nodes cannot start, it counts as ended, and the others start without it. Raises
        ProcessExit when the run is over, Failed, Stopped, JournalError, BusError, NotServed.
        """
        with ExitStack() as closing:
            endpoints = Endpoints(
                self._options.metrics, self._private, self._log, closing, stop=stop, is_over=self._is_over
            )
            warn_of_open("Faust's pages", self._options.web, self._log)
            self._prepare()
            self._each(lambda node: node.open(closing))
            self._each(lambda node: node.check_registry())
            reach_brokers(self._file, self._names, stop)
            ask: Ask = partial(retry_until_reachable, stop)
            self._all_or_some(ask, self._check_data, self._check_data)
            bus = self._all_or_some(
                ask,
                lambda nodes: open_mesh(self._file, names_of(nodes), closing),
                lambda nodes: check_mesh(self._file, names_of(nodes)),
            )
            spends = ask(
                lambda: SpendsBus(self._brokers.data, [node.topics for node in self._nodes], self._records)
            )
            closing.callback(spends.close)
            closing.callback(spends.flush, FLUSH / 2)  # once for all nodes, which have sent their ends before
            log = MeshLog.of(self._file, bus)
            self._each(lambda node: node.begin(bus, SpendsTopic(spends, node.topics), log, ask, closing))
            host, loop, data = self._assemble(bus, ask, endpoints, closing, stop)
            for node in self._nodes:
                node.say()
            asyncio.run(
                run_halves(partial(self._work, host, loop), loop.stop, partial(self._read, loop, data), stop)
            )
            if self._again is not None:
                raise self._again
            for node in self._nodes:
                if isinstance(node.ended, BEGINS_AGAIN):
                    raise node.ended
            if not any(node.ended is None for node in self._nodes):
                self._finish(bus, stop)
            self._log.info("stopped, as asked", extra=LogEvent.STOPPED.of())

    def _is_over(self, error: BaseException | None) -> bool:
        """Return whether an exception is the end of the run for all nodes; none of them has left before."""
        return is_orderly(error) and all(node.run_over for node in self._nodes)

    def _prepare(self) -> None:
        """Make the nodes of this `run`, except those that have failed for good in an earlier one."""
        failed_nodes = {
            node.name: node
            for node in (*self._nodes, *self._refused)
            if isinstance(node.ended, Exception) and not (node.waits or is_over(node))
            and not isinstance(node.ended, BEGINS_AGAIN)
        }  # fmt: skip
        self._refused = list(failed_nodes.values())
        remaining = [name for name in self._names if name not in failed_nodes]
        self._nodes = [HostedNode(self._file, name, self._options) for name in remaining]
        self._again: NodeCanStart | None = None

    def _each(self, action: Callable[[HostedNode], object]) -> None:
        """Call `action` for each node, and refuse nodes that fail. If all fail, raise the first error."""
        errors: dict[HostedNode, Exception] = {}
        for node in self._nodes:
            try:
                action(node)
            except BEGINS_AGAIN:
                raise
            except (JournalError, UsageError, BusError, OSError) as error:  # a node's file may be anything
                errors[node] = error
        if errors and len(errors) == len(self._nodes):
            (node, first), *later_errors = errors.items()
            # The first error ends the process, so the other nodes' errors must be logged now.
            for refused_node, cause in later_errors:
                if str(cause) != str(first):
                    refused_node.refuse(cause)
            if self._refused:
                other_count = len(errors) + len(self._refused) - 1
                raise Failed(f"node {node.name} has failed, and {other_count} more: {first}") from first
            raise first
        for node, reason in errors.items():
            node.refuse(reason)
            self._nodes.remove(node)
            self._refused.append(node)

    def _all_or_some(
        self,
        ask: Ask,
        action: Callable[[Sequence[HostedNode]], T],
        check: Callable[[Sequence[HostedNode]], object],
    ) -> T:
        """Return `action` of all nodes. If that fails, return that of the nodes for which `check` passes."""
        try:
            return ask(lambda: action(self._nodes))
        except PreflightFailed:
            if len(self._nodes) > 1:
                with suppress(PreflightFailed):  # of each node, so that each of their lines is reported once
                    self._each(lambda node: ask(lambda: check([node])))
                    return ask(lambda: action(self._nodes))
            raise

    def _check_data(self, nodes: Sequence[HostedNode]) -> None:
        """Check topics and rights on the data broker, and the positions in topics that others made.

        Raises PreflightFailed, BusError, JournalError.
        """
        positions = {node.topics: node.data_positions() for node in nodes}
        outside = self._preflight(positions, self._file.mesh.run)
        for node in nodes:
            node.check_outside(outside)

    def _preflight(
        self, positions: Mapping[DataTopics, Mapping[int, int]], run: str | None = None
    ) -> tuple[Outside, ...]:
        """Check the topics of nodes, which read their records from these positions, and the rights on them.

        `run`: check the rights on its consumer groups too. Raises PreflightFailed, BusError.
        """
        existing = {topics.records: at for topics, at in positions.items() if topics.source is not None}
        provisioned = {topics.records: at for topics, at in positions.items() if topics.source is None}
        access = access_of_all(node_on_data(topics, run) for topics in positions)
        outside = preflight(self._brokers.data, access, provisioned, several=provisioned)
        if existing:
            reading = access_of_all(on_existing_topic(topics) for topics in positions if topics.source)
            partitions = {
                source.topic: NamedPartitions(f"nodes.{name}.source.partitions", source.partitions)
                for name in names_of(self._nodes)
                if (source := self._file.existing_topic(name)) is not None and source.partitions
            }
            outside += preflight(
                self._records, reading, existing, several=existing, existing=True, partitions=partitions
            )
            refusals = self._existing.refusals(existing)
            if refusals:
                raise PreflightFailed(f"{self._records.servers}: {line}" for line in refusals)
        self._check_labels()
        return outside

    def _check_labels(self) -> None:
        """Check the topics of labels, and how long they and the records are kept. Raises BusError."""
        label_topics: dict[BrokerSettings, dict[str, None]] = {}
        for name, labels in self._labels.items():
            label_topics.setdefault(self._file.labels_broker(name), {})[labels.origin] = None
        for broker, names in label_topics.items():
            preflight(broker, Access(tuple(names), ()), {}, several=names, existing=True)
        for broker, topics in ({self._records: self._existing} | self._elsewhere).items():
            if short := topics.short():
                raise PreflightFailed(f"{broker.servers}: {line}" for line in short)

    def _unfit(self) -> str | None:
        """Return a line on a topic whose settings no longer fit; None if no such topic is known."""
        lines = (topics.unfit() for topics in (self._existing, *self._elsewhere.values()))
        return next(filter(None, lines), None)

    def _assemble(
        self, bus: KafkaBus, ask: Ask, endpoints: Endpoints, closing: ExitStack, stop: Stop
    ) -> tuple[Host, Loop, DataStreams]:
        """Return the nodes, their loop and their data streams; serve metrics, notify the service manager."""
        file, options, names = self._file, self._options, names_of(self._nodes)
        decisions, loop = {}, Loop()
        if options.decisions:
            decisions = ask(lambda: open_decisions(file, names, closing))
        predictions = ask(lambda: open_predictions(file, names, closing))
        certificates = Certificates(self._brokers, self._log)

        def ended(node: HostedNode) -> None:
            cut = isinstance(node.ended, BEGINS_AGAIN)
            if len(self._names) > 1 and not cut:
                tell_end(node)
            if cut or all(other_node.ended is not None for other_node in self._nodes):
                loop.stop()

        commits = None
        if len(self._nodes) > 1:  # waits for the disk overlap
            commits = closing.enter_context(ThreadPoolExecutor(COMMITS, "journals")).submit
        world = ProcessWorld(bus, loop, time.monotonic, in_a_thread, commits)
        for node in self._nodes:
            outputs = decisions.get(node.name), predictions.get(node.name)
            node.assemble(world, *outputs, certificates, partial(ended, node))
        for node in self._refused:
            node.show_refused(certificates)
        host = Host([node.runner for node in self._nodes], bus)
        streams = [node.data for node in self._nodes]
        data = DataStreams(
            self._records,
            streams,
            letters=self._brokers.data,
            state=options.state,
            web=options.web,
            unfit=self._unfit,
        )
        alive = liveness(loop, host, data, min(file.own(name).liveness for name in names), self._log)
        metrics = {node.name: node.metrics for node in (*self._nodes, *self._refused)}
        endpoints.show(metrics, alive.stalled, certificates, self._ended)
        self._manager = closing.enter_context(ServiceManager())
        self._manager.attend(loop.every, alive.stalled, stop)
        return host, loop, data

    def _work(self, host: Host, loop: Loop) -> None:
        """Run the nodes until the loop is stopped."""
        host.run(loop, lambda runner: not runner.queue.ended)
        for node in self._nodes:
            node.watcher.left()

    def _ended(self, name: str) -> str | None:
        """Return how a node has ended by itself; None if it has not."""
        nodes = (*self._nodes, *self._refused)
        return next((str(node.ended) for node in nodes if node.name == name and node.ended), None)

    async def _read(self, loop: Loop, data: DataStreams, stopped: asyncio.Event) -> None:
        """Read the nodes' records until `stopped`."""
        positions = {node.name: node.position for node in self._nodes}
        looking = asyncio.create_task(self._look_again(loop))
        try:
            await data.read(positions, stopped, {node.name: node.slot_closed for node in self._nodes})
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_again(self, loop: Loop) -> None:
        """End the loop when a node that waits for a lock or a topic can start, so that all nodes begin again.

        The pause doubles with each such restart, as a restart interrupts the other nodes.
        """
        while any(node.waits for node in self._refused):
            await asyncio.sleep(self._pause)
            ready = await asyncio.to_thread(lambda: [node for node in self._refused if self._can_start(node)])
            if ready:
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
                self._again = NodeCanStart(f"node {ready[0].name} can start now")
                loop.stop()
                return

    def _can_start(self, node: HostedNode) -> bool:
        """Return whether everything has come that a node waits for before it starts."""
        try:
            if not node.waits:
                return False
            if isinstance(node.ended, JournalLocked):
                node.check_lock()
            else:
                self._preflight({node.topics: {}})
                check_mesh(self._file, [node.name])
        except (JournalError, BusError):
            return False
        return True

    def _finish(self, bus: KafkaBus, stop: Stop) -> None:
        """End a process whose nodes have all ended, with the reason of the first that has failed."""
        over = [node for node in self._nodes if is_over(node)]
        # a neighbour may still need the last release, and no later process would send it
        while over and not stop.asked.is_set() and not bus.flush(FLUSH):
            self._manager.works(None)
        for node in over:
            node.journal.forget_secret()
        failed = [node for node in (*self._nodes, *self._refused) if node not in over]
        (first, *other_nodes) = failed or over
        if len(self._names) > 1 and failed:
            more_text = f", and {len(other_nodes)} more" if other_nodes else ""
            raise Failed(f"node {first.name} has failed{more_text}: {first.ended}")
        if len(self._names) > 1:
            raise ProcessExit(f"all {len(self._names)} nodes have ended")
        if first.ended is not None:
            raise first.ended

    def _private_endpoint(self) -> Address | None:
        """Return where private metrics are served. Raises UsageError if the nodes' own parts differ."""
        if self._options.private_metrics:
            return self._options.private_metrics
        endpoints = {name: self._file.own(name).private_endpoint for name in self._names}
        first = self._names[0]
        for name, address in endpoints.items():
            if address != endpoints[first]:
                text = f"must be given, as {first} and {name} differ in their private_endpoint"
                raise UsageError(f"--private-metrics: {text}")
        return endpoints[first]


def tell_end(node: HostedNode) -> None:
    """Log how a node has ended while others continue."""
    level = logging.INFO if is_over(node) else logging.ERROR
    node.log.log(level, "%s", node.ended, extra=LogEvent.ENDED.of())


def is_over(node: HostedNode) -> bool:
    """Return whether a node has ended in order, as its run is over."""
    return isinstance(node.ended, ProcessExit) and not node.ended.exit_code


def names_of(nodes: Sequence[HostedNode]) -> tuple[str, ...]:
    """Return the nodes' names."""
    return tuple(node.name for node in nodes)


def check_shared(file: MeshFile, names: Sequence[str]) -> None:
    """Raise UsageError unless the nodes have the same brokers, and each a topic of its own.

    A process has one user on each broker, and one position in each topic. Of two nodes with one topic, a node
    would get the partitions of the other.
    """
    first = file.brokers(names[0])
    for name in names[1:]:
        node_brokers = file.brokers(name)
        for side in ("mesh", "data"):
            if getattr(node_brokers, side) != getattr(first, side):
                raise UsageError(
                    f"{names[0]} and {name} have different brokers.{side}: each needs a process of its own"
                )
        if file.records_broker(name) != file.records_broker(names[0]):
            raise UsageError(
                f"{names[0]} and {name} have records on different brokers: each needs a process of its own"
            )
    readers = dict[str, str]()
    for name in names:
        topic = file.data_topics(name).records
        reader = readers.setdefault(topic, name)
        if reader != name:
            raise UsageError(f"{reader} and {name} read one topic, {topic}: each needs a process of its own")


def logger(names: Sequence[str]) -> logging.Logger:
    """Return the logger of a process of these nodes."""
    return logging.getLogger(f"mirrormesh.node.{names[0]}" if len(names) == 1 else "mirrormesh.nodes")
