"""Makes the model of a run in this process, of either kind of mesh file."""

from typing import overload

from streams.local.star_outcome import CollaborationOutcome
from streams.local.summary import Summary
from streams.mesh.file import AnyFile, CollaborationFile, MeshFile
from streams.mesh.model_file import Model
from streams.tools.model.star import star_model
from streams.tools.model.writing import mesh_model


@overload
def run_model(file: MeshFile, result: Summary, /) -> Model: ...


@overload
def run_model(file: CollaborationFile, result: CollaborationOutcome, /) -> Model: ...


def run_model(file: AnyFile, result: Summary | CollaborationOutcome, /) -> Model:
    """Return the model that a run has learnt.

    Of a mesh: the means of the nodes' last decisions and of their averages, which the run's scores measure,
    from `outcome.summary`. Of a collaboration: the last theta and the algorithm's result, from `outcome`.
    Raises TypeError for the result of the other kind.
    """
    model: Model = file.kind.model(file, result)
    return model


def nodes_model(file: MeshFile, result: object) -> Model:
    """Return the model of a mesh of nodes. Raises TypeError for what no run of it gives."""
    if not isinstance(result, Summary):
        raise _not_of_run(file, result)
    return mesh_model(file, result)


def collaboration_model(file: CollaborationFile, result: object) -> Model:
    """Return the model of a collaboration. Raises TypeError for what no run of it gives."""
    if not isinstance(result, CollaborationOutcome):
        raise _not_of_run(file, result)
    return star_model(file, result)


def _not_of_run(file: AnyFile, result: object) -> TypeError:
    return TypeError(f"a {type(result).__name__} is not what a run of a {type(file).__name__} gives")
