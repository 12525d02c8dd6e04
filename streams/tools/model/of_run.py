"""Makes the model of a run in this process, of either kind of mesh file."""

from typing import overload

from streams.local.star_outcome import CollaborationOutcome
from streams.local.summary import Summary
from streams.mesh.file import CollaborationFile, MeshFile
from streams.mesh.model_file import Model
from streams.tools.model.star import star_model
from streams.tools.model.writing import mesh_model


@overload
def run_model(file: MeshFile, result: Summary, /) -> Model: ...


@overload
def run_model(file: CollaborationFile, result: CollaborationOutcome, /) -> Model: ...


def run_model(file: MeshFile | CollaborationFile, result: Summary | CollaborationOutcome, /) -> Model:
    """Return the model that a run has learnt.

    Of a mesh: the means of the nodes' last decisions and of their averages, which the run's scores measure,
    from `outcome.summary`. Of a collaboration: the last theta and the algorithm's result, from `outcome`.
    Raises TypeError for the result of the other kind.
    """
    if isinstance(file, CollaborationFile) and isinstance(result, CollaborationOutcome):
        return star_model(file, result)
    if isinstance(file, MeshFile) and isinstance(result, Summary):
        return mesh_model(file, result)
    raise TypeError(f"a {type(result).__name__} is not what a run of a {type(file).__name__} gives")
