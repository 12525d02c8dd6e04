"""A party of a collaboration: its learner, or an owner, as a StatefulSet of one replica."""

import math

from streams.mesh.settings.collaboration import CollaborationSettings
from streams.tools.export.kubernetes.cluster import OWNER_PORT, Cluster, ClusterPlace, Object
from streams.tools.export.kubernetes.kept import SETS, StatefulProcess, account, disruption
from streams.tools.export.kubernetes.names import star_set
from streams.tools.export.kubernetes.network import broker_ports
from streams.tools.export.kubernetes.pods import ANY, SECRETS
from streams.tools.export.parties import StarParty
from streams.tools.export.process_file import learner_file, owner_file, set_file
from streams.tools.export.raw_mesh import RawCollaboration

_MIB, _GIB = 2**20, 2**30
_LEARNER, _OWNER = 192, 512
"""MiB that each has for itself; an owner keeps a set of up to 32 MiB, and reads a larger one in chunks."""


def of_star(
    raw: RawCollaboration, whose: StarParty, place: ClusterPlace, cluster: Cluster
) -> dict[str, list[Object]]:
    """Return the objects of a party by file. Raises MeshFileError if its part or its brokers are not here."""
    process = _owner(raw, whose) if whose.owner else _learner(raw, whose)
    shared = [account(place), disruption(place, whose.kind)]
    return {"party.yaml": shared, f"{process.name}.yaml": process.objects(place, cluster)}


def _owner(raw: RawCollaboration, whose: StarParty) -> StatefulProcess:
    name, settings = whose.name, raw.file.mesh
    return StatefulProcess(
        whose.kind,
        star_set(whose),
        owner_file(raw, name, SECRETS, f"{ANY}:{OWNER_PORT}", SETS),
        (name,),
        _memory(_OWNER, settings, 32),
        _storage(settings, settings.queries),
        broker_ports(raw.brokers(name), str(raw.file.path), raw.brokers_path(name)),
        private=True,
        records=set_file(raw, name) is not None,
    )


def _learner(raw: RawCollaboration, whose: StarParty) -> StatefulProcess:
    settings, brokers = raw.file.mesh, {"mesh": raw.mesh_broker("the learner")}
    vectors = 2 + len(settings.owners)
    return StatefulProcess(
        whose.kind,
        star_set(whose),
        learner_file(raw, SECRETS),
        (),
        _memory(_LEARNER, settings, 16 * vectors),
        _storage(settings, settings.queries * vectors),
        broker_ports(brokers, str(raw.file.path), ("brokers",)),
        private=False,
    )


def _memory(own: int, settings: CollaborationSettings, vectors: int) -> int:
    """Return the MiB to ask for, where so many vectors of d numbers are held."""
    return own + math.ceil(8 * settings.dimension * vectors / _MIB)


def _storage(settings: CollaborationSettings, vectors: int) -> int:
    """Return the GiB of a volume whose journal keeps so many vectors of d numbers: all of a run."""
    return 1 + 16 * settings.dimension * vectors // _GIB
