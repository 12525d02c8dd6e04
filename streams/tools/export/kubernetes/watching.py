"""What monitoring reads: whom it asks, the rules by audience, and the dashboards.

Everyone may see what is shared; the private metrics, and the rules and the dashboard that live from them, are
for the owner's Prometheus and Grafana alone. A dashboard holds no metrics: where these are not to be had, a
panel stays empty.
"""

import json
from pathlib import Path
from typing import Any

from streams.mesh.settings.files import read_yaml
from streams.tools.export.kubernetes.cluster import ALL, APP, AUDIENCE, OWNER, ClusterPlace, Object
from streams.tools.packed import packed

SHARED_BOARDS = ("overview", "mesh", "privacy")
OWNER_BOARDS = ("learning",)
_FOLDER = "grafana_folder"


def monitors(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the PodMonitors: one for everyone, and, if `owned`, one for the owner."""
    objects = [_monitor(place, "mirrormesh-shared", ALL, "metrics")]
    return [*objects, _monitor(place, "mirrormesh-owner", OWNER, "owner")] if owned else objects


def rules(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the PrometheusRules. If `owned`, all are for the owner: the operator has the shared one."""
    objects = [_rule(place, "mirrormesh-shared", OWNER if owned else ALL, "rules.yaml")]
    return [*objects, _rule(place, "mirrormesh-owner", OWNER, "rules-owner.yaml")] if owned else objects


def dashboards(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the dashboards as ConfigMaps with the label that Grafana's sidecar looks for."""
    folder = packed("grafana/dashboards", "grafana/dashboards")
    return [_board(place, folder, name) for name in (*SHARED_BOARDS, *(OWNER_BOARDS if owned else ()))]


def _monitor(place: ClusterPlace, name: str, audience: str, port: str) -> Object:
    endpoint = {
        "port": port,
        "interval": "5s",
        "scrapeTimeout": "4s",
        "honorLabels": False,
        "relabelings": [{"targetLabel": "job", "replacement": name}],  # the rules know jobs by this
    }
    spec = {
        "selector": {"matchLabels": APP},
        "podTargetLabels": ["mirrormesh.dev/node"],
        "podMetricsEndpoints": [endpoint],
        "sampleLimit": 20000,
    }
    labels = {**APP, AUDIENCE: audience}
    return place.made("monitoring.coreos.com/v1:PodMonitor", name, {"spec": spec}, labels)


def _rule(place: ClusterPlace, name: str, audience: str, file: str) -> Object:
    groups: Any = read_yaml(packed("deploy_prometheus", "deploy/prometheus") / file)["groups"]
    labels = {**APP, AUDIENCE: audience}
    return place.made("monitoring.coreos.com/v1:PrometheusRule", name, {"spec": {"groups": groups}}, labels)


def _board(place: ClusterPlace, folder: Path, name: str) -> Object:
    text = json.dumps(json.loads((folder / f"{name}.json").read_text("utf-8")), separators=(",", ":"))
    board = place.made(
        "v1:ConfigMap",
        f"dashboard-{name}",
        {"data": {f"{name}.json": text}},
        {**APP, "grafana_dashboard": "1"},
    )
    board["metadata"]["annotations"] = {_FOLDER: "mirrormesh"}
    return board
