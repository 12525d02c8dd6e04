"""A compose project: a party's nodes, the operator's scheduler, an owner or the learner of a collaboration.

Each with Prometheus and Grafana.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from streams.mesh.settings.parties import Party
from streams.mesh.settings.yaml_file import as_yaml
from streams.tools.export.compose import services
from streams.tools.export.compose.secret_files import INSIDE, OUTSIDE, as_files, declared
from streams.tools.export.parties import StarParty
from streams.tools.export.process_file import (
    ProcessFile,
    learner_file,
    node_file,
    owner_file,
    scheduler_file,
    set_file,
)
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh
from streams.tools.packed import packed

_SCHEDULER = "scheduler"
_OWNER_BOARD = "learning.json"
_OWNER_RULES = "rules-owner.yaml"


def party(raw: RawMesh, whose: Party, image: str) -> dict[str, str]:
    """Return a party's files. Raises MeshFileError."""
    raw, endless = as_files(raw), raw.file.mesh.rounds is None
    private = f"{services.ANY}:{services.OWNER}"
    files = {f"node-{name}": node_file(raw, name, INSIDE, private) for name in whose.nodes}
    node_services = {
        f"node-{name}": services.node(
            image, name, f"node-{name}", files[f"node-{name}"], raw.file.code_of(name), endless=endless
        )
        for name in whose.nodes
    }
    targets = [f"{name}:{port}" for name in files for port in (services.SHARED, services.OWNER)]
    return _project(
        f"{raw.file.mesh.name}_{whose.name}",
        node_services,
        files,
        targets,
        volumes=list(node_services),
        owned=True,
    )


def operator(raw: RawMesh, image: str) -> dict[str, str]:
    """Return the files of the mesh's operator. Raises MeshFileError."""
    raw, endless = as_files(raw), raw.file.mesh.rounds is None
    file = scheduler_file(raw, INSIDE)
    scheduler_service = {_SCHEDULER: services.scheduler(image, _SCHEDULER, file, endless=endless)}
    targets = [f"{_SCHEDULER}:{services.SHARED}"]
    return _project(
        raw.file.mesh.name, scheduler_service, {_SCHEDULER: file}, targets, volumes=[], owned=False
    )


def star(raw: RawCollaboration, whose: StarParty, image: str) -> dict[str, str]:
    """Return the files of a party of a collaboration. Raises MeshFileError."""
    raw, service = as_files(raw), f"{whose.kind}-{whose.name}"
    targets, sets = [f"{service}:{services.SHARED}"], list[str]()
    if whose.owner:
        records = set_file(raw, whose.name)
        file = owner_file(raw, whose.name, INSIDE, f"{services.ANY}:{services.OWNER}", services.SET)
        definition = services.owner(image, whose.name, service, file, records)
        targets.append(f"{service}:{services.OWNER}")
        sets = [] if records is None else [services.set_path(service, records)]
    else:
        file = learner_file(raw, INSIDE)
        definition = services.learner(image, service, file)
    name = f"{raw.file.mesh.name}_{whose.name}"
    return _project(
        name, {service: definition}, {service: file}, targets, volumes=[service], owned=whose.owner, sets=sets
    )


def _project(
    name: str,
    found: Mapping[str, services.Service],
    files: Mapping[str, ProcessFile],
    targets: list[str],
    *,
    volumes: list[str],
    owned: bool,
    sets: Iterable[str] = (),
) -> dict[str, str]:
    secrets = {
        key: secret for service, file in files.items() for key, secret in declared(service, file).items()
    }
    tree: dict[str, Any] = {
        "name": f"mirrormesh_{name}",  # no other name has a _, so no two projects are one
        "services": {**found, "prometheus": services.prometheus(list(found)), "grafana": services.grafana()},
        **({"secrets": secrets} if secrets else {}),
        "volumes": {volume: {} for volume in [*volumes, "prometheus", "grafana"]},
    }
    return {
        "compose.yaml": _about(files, sets) + as_yaml(tree),
        **{f"mesh/{service}.yaml": file.text for service, file in files.items()},
        **dict(_watching(targets, owned=owned)),
    }


def _about(files: Mapping[str, ProcessFile], sets: Iterable[str]) -> str:
    """Return the comment at the top: which secrets, and which sets of records, must be where."""
    named = [f"{OUTSIDE}/{service}/{name}" for service, file in files.items() for name in file.files]
    named += sets
    lines = [
        "Made by `mirrormesh export compose`. A process's volume is its journal: never two processes on one,",
        "and never put back from a backup.",
    ]
    if named:
        lines += ["", "User 10001 must be able to read these files:", *(f"    {path}" for path in named)]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _watching(targets: list[str], *, owned: bool) -> Iterator[tuple[str, str]]:
    """Yield what Prometheus and Grafana read; `owned`: with what is for the owner of nodes alone."""
    rules = ["rules.yaml", *([_OWNER_RULES] if owned else [])]
    settings = {
        "global": {
            "scrape_interval": services.SCRAPE,
            "evaluation_interval": services.SCRAPE,
            "external_labels": {"runbooks": "https://runbooks.example/mirrormesh"},
        },
        "rule_files": rules,
        "scrape_configs": [{"job_name": "mirrormesh", "static_configs": [{"targets": targets}]}],
    }
    yield "prometheus/prometheus.yaml", as_yaml(settings)
    for name in rules:
        yield (
            f"prometheus/{name}",
            (packed("deploy_prometheus", "deploy/prometheus") / name).read_text("utf-8"),
        )
    for kind in ("provisioning", "dashboards"):
        folder = packed(f"grafana/{kind}", f"grafana/{kind}")
        for path in _files(folder):
            if owned or path.name != _OWNER_BOARD:
                yield f"grafana/{kind}/{path.relative_to(folder).as_posix()}", path.read_text("utf-8")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in {".json", ".yaml"})
