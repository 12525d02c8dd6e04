#!/usr/bin/env bash
# Builds the image of all processes, with buildah, podman or docker, whichever is found first.
#
#     BASE=NAME@sha256:DIGEST deploy/image/build.sh [NAME]
#
# NAME: what to call it (mirrormesh). A base of localhost/ needs no digest; what is built on it is for tests. ENGINE
# takes another program, EXTRAS another set of optional parts, IMAGE_OPTIONS more options of `ENGINE build`.
set -euo pipefail
cd "$(dirname "$0")/../.."

name=${1:-mirrormesh}
base=${BASE:-}
if [[ ! $base =~ @sha256:[0-9a-f]{64}$ && ! $base =~ ^localhost/. ]]; then
  echo "BASE is ${base:-not given}: must name the base image by its digest, NAME@sha256:...; or one of localhost/," \
    "for tests" >&2
  exit 2
fi
for engine in ${ENGINE:-buildah podman docker}; do
  command -v "$engine" >/dev/null && break
  engine=
done
test -n "${engine:-}" || { echo "needs buildah, podman or docker" >&2; exit 1; }

secrets=$(mktemp -d)
trap 'rm -rf "$secrets"' EXIT
options=(--file deploy/Containerfile --tag "$name" --build-arg "BASE=$base")
options+=(--build-arg "EXTRAS=${EXTRAS-accounting,parquet,registry}")
options+=(--build-arg "VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)")
options+=(--build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)")

python=.venv/bin/python
test -x "$python" || python=python3
# how pip finds packages here, and whom it trusts
{
  echo "[global]"
  { "$python" -m pip config list || true; } | sed -nE "/\.(cert|find-links)=/!s/^[^=]*\.([a-z-]+)='(.*)'$/\1 = \2/p"
  authority=${PIP_CERT:-${REQUESTS_CA_BUNDLE:-${SSL_CERT_FILE:-}}}
  if [[ -n $authority ]]; then
    cp "$authority" "$secrets/ca.crt"
    echo "cert = /etc/pip.ca.crt"
  fi
} >"$secrets/pip.conf"
for secret in "$secrets"/*; do
  options+=(--secret "id=$(basename "$secret"),src=$secret")
done

time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
case $engine in
  docker) options+=(--build-arg "SOURCE_DATE_EPOCH=$time") ;;
  *) options+=(--timestamp "$time" --pull-never) ;;
esac
# shellcheck disable=SC2086 # several options in one variable
"$engine" build "${options[@]}" ${IMAGE_OPTIONS:-} .
"$engine" images "$name"
