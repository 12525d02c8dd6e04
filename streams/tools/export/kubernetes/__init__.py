"""Kubernetes manifests and a kustomization, made of plain dictionaries."""

from streams.mesh.settings.parties import Party
from streams.mesh.settings.yaml_file import as_yaml
from streams.tools.export.process_file import ProcessFile, node_file, scheduler_file
from streams.tools.export.raw_mesh import RawMesh

SECRETS = "/etc/mirrormesh/secrets"
ANY = "0.0.0.0"  # noqa: S104 # a kubelet and Prometheus reach a pod at its own address


def party(raw: RawMesh, whose: Party, image: str) -> dict[str, str]:
    """Return a party's files."""
    return {
        f"{node}.yaml": _config(node, node_file(raw, node, SECRETS, f"{ANY}:9101"), image)
        for node in whose.nodes
    }


def operator(raw: RawMesh, image: str) -> dict[str, str]:
    """Return the files of the mesh's operator."""
    return {"scheduler.yaml": _config("scheduler", scheduler_file(raw, SECRETS), image)}


def _config(name: str, file: ProcessFile, image: str) -> str:
    data = {"mesh.yaml": file.text}
    return as_yaml(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"mirrormesh.dev/image": image}},
            "data": data,
        }
    )
