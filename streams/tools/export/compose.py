"""A compose project: a party's nodes, the operator's scheduler, an owner or the learner of a collaboration.

Each with Prometheus and Grafana.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from streams.mesh.compatibility import by_time
from streams.mesh.settings.files import as_yaml
from streams.mesh.settings.parties import Party
from streams.mesh.shipped import packed
from streams.tools.export import memory
from streams.tools.export.cluster import OPERATOR_BOARDS, OWNER_BOARDS, seen_board
from streams.tools.export.raw_mesh import (
    SIDES,
    TEXTS,
    Participant,
    ProcessFile,
    RawCollaboration,
    RawMesh,
    fed_file,
    feed_file,
    learner_file,
    node_file,
    owner_file,
    scheduler_file,
    score_file,
    set_file,
)

# The services of a compose project: nodes, scheduler, Prometheus and Grafana.

Service = dict[str, Any]

ANY = "0.0.0.0"  # noqa: S104 # Prometheus, in a container of its own, reaches it at the service's name
SHARED, OWNER = 9100, 9101
STATE = "/var/lib/mirrormesh"
SET = "/srv/mirrormesh"
SETS = "${MIRRORMESH_SETS:-../sets}"
"""The folder of the owners' sets of records, with a folder for each owner. No export contains a set."""
PROMETHEUS = "prom/prometheus:v2.53.5@sha256:7a34573f0b9c952286b33d537f233cd5b708e12263733aa646e50c33f598f16c"
GRAFANA = "grafana/grafana:11.6.0@sha256:62d2b9d20a19714ebfe48d1bb405086081bc602aa053e28cf6d73c7537640dfb"
SCRAPE = "5s"
_MESH = "/etc/mirrormesh/mesh.yaml"
_LEAST = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "stop_grace_period": "60s",
}


def node(
    image: str, name: str, service: str, file: ProcessFile, code: list[str], requested: int, *, endless: bool
) -> Service:
    """Return a node's service, whose journal is in the volume of the same name.

    `code`: what it may run. `requested`: the MiB of memory that it asks for.
    """
    command = ["node", _MESH, name, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    command += [f"--code={allowed}" for allowed in code]
    definition = _process(image, service, file, command, requested, endless=endless)
    definition["volumes"].append(f"{service}:{STATE}")
    return {**definition, "healthcheck": _python_check(OWNER)}


def scorer(image: str, name: str, service: str, file: ProcessFile, code: list[str]) -> Service:
    """Return the service that scores with a node's decisions; `docker compose up --scale` starts more."""
    command = ["score", _MESH, name, *(f"--code={allowed}" for allowed in code)]
    definition = _process(image, service, file, command, memory.SCORER, endless=True)
    return {**definition, "healthcheck": _python_check(OWNER)}


def feeder(
    image: str, name: str, service: str, file: ProcessFile, code: list[str], records: str, *, timed: bool
) -> Service:
    """Return the service that feeds the file `records` to a node's topic. When all is fed, it stays idle."""
    command = ["feed", _MESH, name, "--stay", f"--private-metrics={ANY}:{OWNER}"]
    command += [*(["--timestamps"] if timed else []), *(f"--code={allowed}" for allowed in code)]
    definition = _process(image, service, file, command, memory.FEEDER, endless=True)
    definition["volumes"].append(_set_volume(service, records))
    return {**definition, "healthcheck": _python_check(OWNER)}


def owner(
    image: str, name: str, service: str, file: ProcessFile, records: str | None, requested: int
) -> Service:
    """Return an owner's service, as `node` does; `records`: the file of its set, where it reads one."""
    command = ["owner", _MESH, name, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, requested, endless=False)
    definition["volumes"].append(f"{service}:{STATE}")
    if records is not None:
        definition["volumes"].append(_set_volume(service, records))
    return {**definition, "healthcheck": _python_check(OWNER)}


def _set_volume(service: str, records: str) -> dict[str, Any]:
    escaped = records.replace("$", "$$")  # compose would put a variable there
    paths = {"source": set_path(service, escaped), "target": f"{SET}/{escaped}"}
    return {"type": "bind", **paths, "read_only": True, "bind": {"create_host_path": False}}


def set_path(service: str, records: str) -> str:
    """Return where the file of a service's set must be."""
    return f"{SETS}/{service}/{records}"


def learner(image: str, service: str, file: ProcessFile, requested: int) -> Service:
    """Return the learner's service, whose journal is in the volume of the same name."""
    command = ["learner", _MESH, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, requested, endless=False)
    definition["volumes"].append(f"{service}:{STATE}")
    return {**definition, "healthcheck": _python_check(SHARED)}


def scheduler(image: str, service: str, file: ProcessFile, *, endless: bool) -> Service:
    """Return the scheduler's service."""
    command = ["scheduler", _MESH, f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, memory.SCHEDULER, endless=endless)
    return {**definition, "healthcheck": _python_check(SHARED)}


def prometheus(after: list[str]) -> Service:
    """Return a Prometheus for the project's own processes."""
    return {
        "image": PROMETHEUS,
        "command": [
            "--config.file=/etc/prometheus/mirrormesh/prometheus.yaml",
            "--storage.tsdb.path=/prometheus",
            f"--web.listen-address={ANY}:9090",
        ],
        "ports": ["127.0.0.1:${PROMETHEUS_PORT:-9090}:9090"],
        "volumes": ["./prometheus:/etc/prometheus/mirrormesh:ro", "prometheus:/prometheus"],
        "healthcheck": _check("wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9090/-/ready"),
        "depends_on": {name: {"condition": "service_started"} for name in after},
        "restart": "unless-stopped",
    }


def grafana() -> Service:
    """Return a Grafana with the dashboards, for anyone on the machine, without a login."""
    return {
        "image": GRAFANA,
        "ports": ["127.0.0.1:${GRAFANA_PORT:-3000}:3000"],
        "environment": {
            "GF_AUTH_ANONYMOUS_ENABLED": "true",
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "MIRRORMESH_DASHBOARDS": "/var/lib/mirrormesh/dashboards",
            "PROMETHEUS_URL": "http://prometheus:9090",
            "SCRAPE_INTERVAL": SCRAPE,
        },
        "volumes": [
            "./grafana/provisioning:/etc/grafana/provisioning:ro",
            "./grafana/dashboards:/var/lib/mirrormesh/dashboards:ro",
            "grafana:/var/lib/grafana",
        ],
        "healthcheck": _check("wget", "-q", "-O", "/dev/null", "http://127.0.0.1:3000/api/health"),
        "depends_on": {"prometheus": {"condition": "service_healthy"}},
        "restart": "unless-stopped",
    }


def _process(
    image: str, service: str, file: ProcessFile, command: list[str], requested: int, *, endless: bool
) -> Service:
    limit = f"{memory.limit(requested)}m"
    definition: Service = {
        "image": image,
        "command": [*command, "--log=json"],
        "mem_limit": limit,
        "memswap_limit": limit,  # none is swapped: memory holds records
        # another mesh file makes another container, so that a running process never reads a changed file
        "labels": {"mirrormesh.mesh-sha256": file.checksum},
        **_LEAST,
        "restart": "unless-stopped" if endless else "on-failure",  # a run that is over ends with 0
        "volumes": [f"./mesh/{service}.yaml:{_MESH}:ro"],
    }
    if file.variables:
        definition["environment"] = {name: f"${{{name}:?as in the mesh file}}" for name in file.variables}
    if file.files:
        definition["secrets"] = used(service, file)
    return definition


def _python_check(port: int) -> dict[str, Any]:
    """Return a check that the process's loop works, by the process's own answer on `port`."""
    code = f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{port}/livez', timeout=4)"
    return _check("python", "-c", code)


def _check(*words: str) -> dict[str, Any]:
    times = {"interval": "10s", "timeout": "5s", "retries": 3, "start_period": "60s", "start_interval": "1s"}
    return {"test": ["CMD", *words], **times}


# The secrets of a compose project. Each is a file, also if the mesh file names a variable.

INSIDE = "/run/secrets"
"""The folder in which compose mounts a process's secrets."""
OUTSIDE = "${MIRRORMESH_SECRETS:-../secrets}"
"""The folder of all secrets. They are not in the export's folder, as an export replaces its folder."""


R = TypeVar("R", RawMesh, RawCollaboration)


def as_files(raw: R) -> R:
    """Return the mesh file with a `password_file` for each `password` that is a variable, and likewise for
    others.
    """
    tree = dict(raw.tree)
    if tree.get("brokers") is not None:
        tree["brokers"] = _moved(tree["brokers"])
    owns = {
        name: {**node_settings, "brokers": _moved(node_settings["brokers"])}
        if node_settings.get("brokers")
        else node_settings
        for name, node_settings in raw.owns.items()
    }
    return replace(raw, tree=tree, owns=owns)


def _moved(brokers: Mapping[str, Any]) -> dict[str, Any]:
    with_files = dict(brokers)
    for side in SIDES:
        settings = with_files.get(side)
        if settings is None:
            continue
        other_keys = {key: value for key, value in settings.items() if key not in TEXTS}
        files = {f"{key}_file": key for key in TEXTS if settings.get(key) is not None}
        with_files[side] = {**other_keys, **files}
    return with_files


def declared(service: str, file: ProcessFile) -> dict[str, dict[str, str]]:
    """Return the project's secrets of one service, with the path of each file."""
    return {f"{service}-{name}": {"file": f"{OUTSIDE}/{service}/{name}"} for name in file.files}


def used(service: str, file: ProcessFile) -> list[dict[str, str]]:
    """Return a service's own list of its secrets, each with the name that its mesh file uses."""
    return [{"source": f"{service}-{name}", "target": f"{INSIDE}/{name}"} for name in file.files]


_SCHEDULER = "scheduler"
_OWNER_RULES = "rules-owner.yaml"


def party(raw: RawMesh, whose: Party, image: str) -> dict[str, str]:
    """Return a party's files. Raises MeshFileError."""
    raw, endless = as_files(raw), raw.file.mesh.rounds is None
    private = f"{ANY}:{OWNER}"
    files = {f"node-{name}": node_file(raw, name, INSIDE, private) for name in whose.nodes}
    node_services = {
        f"node-{name}": node(
            image,
            name,
            f"node-{name}",
            files[f"node-{name}"],
            raw.file.code_of(name),
            memory.of_node(raw.file.resolved, name),
            endless=endless,
        )
        for name in whose.nodes
    }
    targets = [f"{name}:{port}" for name in files for port in (SHARED, OWNER)]
    scores = {f"score-{name}": name for name in whose.nodes if raw.file.own(name).score is not None}
    score_files = {service: score_file(raw, name, INSIDE, private) for service, name in scores.items()}
    score_services = {
        service: scorer(image, name, service, score_files[service], raw.file.code_of(name))
        for service, name in scores.items()
    }
    feeds = {f"feed-{name}": (name, fed_file(raw, name)) for name in whose.nodes}
    fed = {service: (name, records) for service, (name, records) in feeds.items() if records is not None}
    feed_files = {service: feed_file(raw, name, INSIDE, SET) for service, (name, _) in fed.items()}
    timed = by_time(raw.file.mesh)
    feed_services = {
        service: feeder(
            image, name, service, feed_files[service], raw.file.code_of(name), records, timed=timed
        )
        for service, (name, records) in fed.items()
    }
    targets += [f"{service}:{OWNER}" for service in (*scores, *fed)]
    return _project(
        f"{raw.file.mesh.name}_{whose.name}",
        {**node_services, **score_services, **feed_services},
        {**files, **score_files, **feed_files},
        targets,
        volumes=list(node_services),
        owned=True,
        sets=[set_path(service, records) for service, (_, records) in fed.items()],
    )


def operator(raw: RawMesh, image: str) -> dict[str, str]:
    """Return the files of the mesh's operator. Raises MeshFileError."""
    raw, endless = as_files(raw), raw.file.mesh.rounds is None
    file = scheduler_file(raw, INSIDE)
    scheduler_service = {_SCHEDULER: scheduler(image, _SCHEDULER, file, endless=endless)}
    targets = [f"{_SCHEDULER}:{SHARED}"]
    return _project(
        raw.file.mesh.name, scheduler_service, {_SCHEDULER: file}, targets, volumes=[], owned=False
    )


def participant(raw: RawCollaboration, whose: Participant, image: str) -> dict[str, str]:
    """Return the files of a party of a collaboration. Raises MeshFileError."""
    raw, service = as_files(raw), f"{whose.kind}-{whose.name}"
    targets, sets = [f"{service}:{SHARED}"], list[str]()
    if whose.owner:
        records = set_file(raw, whose.name)
        file = owner_file(raw, whose.name, INSIDE, f"{ANY}:{OWNER}", SET)
        definition = owner(image, whose.name, service, file, records, memory.of_owner(raw.file.mesh))
        targets.append(f"{service}:{OWNER}")
        sets = [] if records is None else [set_path(service, records)]
    else:
        file = learner_file(raw, INSIDE)
        definition = learner(image, service, file, memory.of_learner(raw.file.mesh))
    name = f"{raw.file.mesh.name}_{whose.name}"
    return _project(
        name, {service: definition}, {service: file}, targets, volumes=[service], owned=whose.owner, sets=sets
    )


def _project(
    name: str,
    found: Mapping[str, Service],
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
        "name": f"mirrormesh_{name}",  # no other name has an underscore, so no two projects have one name
        "services": {**found, "prometheus": prometheus(list(found)), "grafana": grafana()},
        **({"secrets": secrets} if secrets else {}),
        "volumes": {volume: {} for volume in [*volumes, "prometheus", "grafana"]},
    }
    return {
        "compose.yaml": _about(files, sets) + as_yaml(tree),
        **{f"mesh/{service}.yaml": file.text for service, file in files.items()},
        **dict(_watching(targets, owned=owned)),
    }


def _about(files: Mapping[str, ProcessFile], sets: Iterable[str]) -> str:
    """Return the comment at the top: the secrets and the sets of records that must exist, and
    their places.
    """
    paths = [f"{OUTSIDE}/{service}/{name}" for service, file in files.items() for name in file.files]
    paths += sets
    lines = [
        "Made by `mirrormesh export compose`. A process's volume is its journal: never two processes on one,",
        "and never put back from a backup.",
    ]
    if paths:
        lines += ["", "User 10001 must be able to read these files:", *(f"    {path}" for path in paths)]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _watching(targets: list[str], *, owned: bool) -> Iterator[tuple[str, str]]:
    """Yield the files of Prometheus and Grafana. `owned`: with those for the owner of nodes alone."""
    rules = ["rules.yaml", *([_OWNER_RULES] if owned else [])]
    settings = {
        "global": {
            "scrape_interval": SCRAPE,
            "evaluation_interval": SCRAPE,
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
    folder = packed("grafana/provisioning", "grafana/provisioning")
    for path in _files(folder):
        yield f"grafana/provisioning/{path.relative_to(folder).as_posix()}", path.read_text("utf-8")
    for name in OWNER_BOARDS if owned else OPERATOR_BOARDS:
        text = json.dumps(seen_board(name, owned=owned), indent=2) + "\n"
        yield f"grafana/dashboards/{name}.json", text


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in {".json", ".yaml"})
