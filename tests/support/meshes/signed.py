"""Mesh files on a broker whose processes sign, each with a key of its own in a file, as their owners have."""

import yaml

from streams.mesh.settings.keys import private_key
from tests.support.meshes.on_broker import small_mesh_file

PLANNER = "planner"


def signed_file(folder, broker, call, nodes="abc", **mesh):
    """Write a mesh file whose nodes and scheduler sign; `call` runs commands. Return its path.

    The private keys are `a.key` and so on, and `planner.key`.
    """
    public = {name: made(folder, call, name) for name in (*nodes, PLANNER)}
    members = {name: {"key": public[name]} for name in nodes}
    schedulers = {PLANNER: public[PLANNER]}
    path = small_mesh_file(
        folder, broker, nodes=members, signatures="required", schedulers=schedulers, **mesh
    )
    tree = yaml.safe_load(path.read_text())
    at = tree["brokers"]["mesh"]
    for name, own in tree["nodes"].items():
        key = f"{name.split('-')[0]}.key"
        own["brokers"] = {"mesh": at | {"signing_key": key}, "data": dict(tree["brokers"]["data"])}
        own["brokers"]["trust_broker"] = tree["brokers"]["trust_broker"]
    tree["brokers"]["mesh"] = at | {"signing_key": f"{PLANNER}.key"}
    path.write_text(yaml.safe_dump(tree))
    return path


def made(folder, call, name):
    """Make a key by the command; return the public one."""
    return call("key", folder / f"{name}.key").out.removeprefix("key: ").strip()


def signing(file, name, key=None):
    """The envelope with which `name` signs; `key`: whose key it has."""
    held = private_key(str(file.path.parent / f"{(key or name).split('-')[0]}.key"))
    return file.resolved.envelope.signing(name, held.sign)
