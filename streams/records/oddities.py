"""Says what a mesh file may do but hardly means, by its graph and the first records of its files."""

from collections.abc import Iterator

from nodes.dynamics import LARGEST_RADIUS
from streams.mesh.algorithm import dynamics
from streams.mesh.file import MeshFile, MeshFileError
from streams.mesh.fits import by_time
from streams.mesh.settings.node import NodeSettings
from streams.records.faults import some_of
from streams.records.first_records import data_files, file_oddities, most_looked_at
from streams.records.shared_records import shared_records
from topology.schedules import CycleSchedule, FixedSchedule, window


def oddities(file: MeshFile) -> list[str]:
    """Return a line for each oddity. Raises MeshFileError for all files that cannot be read so far."""
    lines, wrong = [*_unconnected(file), *_growing(file), *_tested_on_learnt(file)], list[str]()
    files = data_files(file)
    for data_file in files:
        try:
            lines += file_oddities(file, data_file, most_looked_at(len(files)))
        except MeshFileError as error:
            wrong += error.lines
    if wrong:
        raise MeshFileError(wrong)
    return lines


def _unconnected(file: MeshFile) -> Iterator[str]:
    """Yield a line if the graph is not connected over the horizon; switched edges: over its first rounds."""
    schedule, horizon = file.resolved.schedule, file.mesh.horizon
    turns = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    repeats = isinstance(schedule, CycleSchedule | FixedSchedule)
    if window(schedule, min(turns, horizon) if repeats else horizon, turns) is None:
        over = f"{horizon} rounds, the horizon"
        yield f"mesh.topology: not connected over {over}: what some nodes learn does not reach all others"


def _growing(file: MeshFile) -> Iterator[str]:
    """Yield a line if states grow geometrically under the motion model."""
    model = dynamics(file.mesh)
    radius = 0.0 if model is None else model.spectral_radius()
    if radius > LARGEST_RADIUS:
        allowed = "above 1, so states grow until the set holds them: hardly a model of anything that moves"
        yield f"mesh.algorithm.dynamics.matrix: spectral radius {radius:.6g}: {allowed}"


def _tested_on_learnt(file: MeshFile) -> Iterator[str]:
    if file.held_out is None:
        return
    tested = NodeSettings.model_construct(source=file.held_out)
    parts = {**file.nodes, "held_out": tested}  # no node's name has a _
    names = shared_records(parts, by_time=by_time(file.mesh)).get("held_out")
    if names:
        learn = f"{some_of(names)} {'learns' if len(names) == 1 else 'learn'}"
        yield f"held_out: may hold records that {learn} from (one file, or equal ones): scores look too good"
