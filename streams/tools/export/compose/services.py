"""The services of a compose project: nodes, scheduler, Prometheus and Grafana."""

from typing import Any

from streams.tools.export.compose.secret_files import used
from streams.tools.export.process_file import ProcessFile

Service = dict[str, Any]

ANY = "0.0.0.0"  # noqa: S104 # Prometheus, in a container of its own, reaches it at the service's name
SHARED, OWNER = 9100, 9101
STATE = "/var/lib/mirrormesh"
SET = "/srv/mirrormesh"
SETS = "${MIRRORMESH_SETS:-../sets}"
"""The folder of the owners' sets of records, a folder each. No export holds one."""
PROMETHEUS = "prom/prometheus:v2.53.5@sha256:7a34573f0b9c952286b33d537f233cd5b708e12263733aa646e50c33f598f16c"
GRAFANA = "grafana/grafana:11.6.0@sha256:62d2b9d20a19714ebfe48d1bb405086081bc602aa053e28cf6d73c7537640dfb"
SCRAPE = "5s"
_MESH = "/etc/mirrormesh/mesh.yaml"
_LEAST = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "stop_grace_period": "20s",
}


def node(
    image: str, name: str, service: str, file: ProcessFile, code: list[str], *, endless: bool
) -> Service:
    """Return a node's service, whose journal is in the volume of the same name; `code`: what it may run."""
    command = ["node", _MESH, name, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    command += [f"--code={allowed}" for allowed in code]
    definition = _process(image, service, file, command, endless=endless)
    definition["volumes"].append(f"{service}:{STATE}")
    return {**definition, "healthcheck": _python_check(OWNER)}


def owner(image: str, name: str, service: str, file: ProcessFile, records: str | None) -> Service:
    """Return an owner's service, as `node` does; `records`: the file of its set, where it reads one."""
    command = ["owner", _MESH, name, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, endless=False)
    definition["volumes"].append(f"{service}:{STATE}")
    if records is not None:
        escaped = records.replace("$", "$$")  # compose would put a variable there
        paths = {"source": set_path(service, escaped), "target": f"{SET}/{escaped}"}
        options = {"read_only": True, "bind": {"create_host_path": False}}
        definition["volumes"].append({"type": "bind", **paths, **options})
    return {**definition, "healthcheck": _python_check(OWNER)}


def set_path(service: str, records: str) -> str:
    """Return where the file of a service's set must be."""
    return f"{SETS}/{service}/{records}"


def learner(image: str, service: str, file: ProcessFile) -> Service:
    """Return the learner's service, whose journal is in the volume of the same name."""
    command = ["learner", _MESH, f"--state={STATE}", f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, endless=False)
    definition["volumes"].append(f"{service}:{STATE}")
    return {**definition, "healthcheck": _python_check(SHARED)}


def scheduler(image: str, service: str, file: ProcessFile, *, endless: bool) -> Service:
    """Return the scheduler's service."""
    command = ["scheduler", _MESH, f"--metrics={ANY}:{SHARED}"]
    definition = _process(image, service, file, command, endless=endless)
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


def _process(image: str, service: str, file: ProcessFile, command: list[str], *, endless: bool) -> Service:
    definition: Service = {
        "image": image,
        "command": command,
        # another mesh file makes another container: what runs never reads a file that has changed
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
    """Return a check that the process's loop works, as it says itself on `port`."""
    code = f"from urllib.request import urlopen; urlopen('http://127.0.0.1:{port}/livez', timeout=4)"
    return _check("python", "-c", code)


def _check(*words: str) -> dict[str, Any]:
    times = {"interval": "10s", "timeout": "5s", "retries": 3, "start_period": "60s", "start_interval": "1s"}
    return {"test": ["CMD", *words], **times}
