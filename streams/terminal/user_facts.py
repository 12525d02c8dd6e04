"""Says who can forge what on the mesh broker, as far as a mesh file shows it."""

from collections.abc import Iterator

from streams.mesh.file import MeshFile
from streams.terminal.wording import listed


def user_facts(file: MeshFile) -> Iterator[tuple[str, str]]:
    """Yield a warning if the broker knows no users, and which nodes share a user."""
    if file.names_brokers:
        broker = file.mesh_broker
        if not broker.users and broker.certificate is None:
            forged = "can forge heartbeats, plans and releases"
            if file.mesh.signatures == "required":
                forged = "can replay heartbeats, plans and releases, and flood its topics"
            yield "warning", f"the file names no users: anyone who reaches {broker.servers} {forged}"
    for party in file.mesh.all_parties:
        if len(party.nodes) > len(set(party.users.values())):
            names, user = listed(party.nodes), next(iter(party.users.values()))
            yield (
                "users",
                f"{names} of {party.name} share the user {user}: each can forge what the others send",
            )
