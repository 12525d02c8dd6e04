"""Kubernetes manifests: read from a folder, and checked against the schemas of their kinds, offline."""

import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path

import kubernetes_validate
import yaml
from jsonschema import Draft202012Validator

from tests.support.processes.programs import need
from tests.support.published.pages import ROOT

VERSION = "1.37"
SCHEMAS = ROOT / "tests" / "deploy" / "schemas"
CUSTOM = {
    "kafka.strimzi.io/v1": {"KafkaTopic", "KafkaUser"},
    "monitoring.coreos.com/v1": {"PodMonitor", "PrometheusRule"},
}
_OPEN = "x-kubernetes-preserve-unknown-fields"


def manifests(folder: Path) -> list[dict]:
    """Return all objects in the folder's files, but the kustomization."""
    paths = sorted(path for path in folder.rglob("*.yaml") if path.name != "kustomization.yaml")
    return [found for path in paths for found in yaml.safe_load_all(path.read_text("utf-8"))]


def kustomized(folder: Path, home: Path) -> list[dict]:
    """Return the objects that kubectl makes of the folder's kustomization."""
    need("kubectl")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def mistakes(manifest: dict) -> list[str]:
    """Return what is wrong with an object; nothing if its kind's schema allows it."""
    if manifest["kind"] not in CUSTOM.get(manifest["apiVersion"], ()):
        return _of_kubernetes(manifest)
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}
    found = [error.message for error in _closed_schema(manifest["kind"]).iter_errors(manifest)]
    return [*found, *_of_kubernetes(about)]


def _of_kubernetes(manifest: dict) -> list[str]:
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        return [error.message]
    return []


@lru_cache
def _closed_schema(kind: str) -> Draft202012Validator:
    given = json.loads((SCHEMAS / f"{kind.lower()}-v1.json").read_text())
    return Draft202012Validator(closed(given["schema"]))


def closed(schema):
    """Return the schema, which takes no key that it does not name where it names any."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get(_OPEN):
        found.setdefault("additionalProperties", False)
    return found
