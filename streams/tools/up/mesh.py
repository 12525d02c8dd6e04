"""Runs the processes of a mesh on this machine until the run is over, then ends them."""

import time

from streams.mesh.file import MeshFile
from streams.public.progress import Course, Progress, progress
from streams.state.folder import StateFolder
from streams.terminal.spending import spent
from streams.terminal.up_view import Row, Sight
from streams.tools.up import programs
from streams.tools.up.children import Child, Say, end_all
from streams.tools.up.programs import Options, Ports, Program


class UpMesh:
    """A scheduler, the nodes whose own part is here, and a feeder for each one that can be fed from here.

    Nothing runs before the first `look`. `say` prints anything unusual.
    """

    def __init__(self, file: MeshFile, options: Options, served: Ports | None, say: Say) -> None:
        folder = StateFolder(options.state)
        folder.logs.mkdir(exist_ok=True)

        def child(program: Program) -> Child:
            return Child(program, folder.log(program.label), say)

        self._file, self._state = file, options.state
        self._scheduler = child(programs.scheduler(file, served))
        found, fed = programs.nodes(file, options, served), programs.feeders(file, options)
        self._nodes = {name: child(program) for name, program in found}
        self._feeders = {name: child(program) for name, program in fed}
        self._progress = {name: progress(self._state, name) or Progress(0, 0.0) for name in self._nodes}
        self.course = Course()

    @property
    def over(self) -> bool:
        """Whether every node here has reached the end of the run."""
        return all(child.done for child in self._nodes.values())

    def look(self) -> Sight:
        """Start the processes that are due, and return the state of the mesh."""
        for child in (self._scheduler, *self._nodes.values(), *self._feeders.values()):
            child.look()
            child.log.read()
        self._stand()
        rows = tuple(self._row(name) for name in self._file.mesh.nodes)
        planner = self._scheduler
        return Sight(self.course.round, self.course.rate, planner.state, planner.log.warning, rows)

    def end(self) -> None:
        """End all processes: feeders first, then nodes, then the scheduler."""
        for children in (self._feeders.values(), self._nodes.values(), (self._scheduler,)):
            end_all(tuple(children))
        self._stand()

    def _stand(self) -> None:
        for name, before in self._progress.items():
            self._progress[name] = progress(self._state, name) or before
        self.course.take((one.round for one in self._progress.values()), time.monotonic())

    def _row(self, name: str) -> Row:
        if name not in self._nodes:
            return Row(name, "elsewhere", None, "", "", "")
        child, reached = self._nodes[name], self._progress[name]
        feeder = self._feeders.get(name)
        warnings = [one.log.warning for one in (child, feeder) if one is not None and one.log.warning]
        feed = "" if feeder is None else feeder.state
        return Row(name, child.state, reached.round, spent(reached.spent), feed, max(warnings, default=""))
