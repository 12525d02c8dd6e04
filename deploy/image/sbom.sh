#!/usr/bin/env bash
# Prints the list of an image's parts, which it holds itself, without running it: deploy/image/sbom.sh [NAME]
set -euo pipefail
name=${1:-mirrormesh}
list=opt/mirrormesh/sbom.json
for engine in ${ENGINE:-buildah podman docker}; do
  command -v "$engine" >/dev/null && break
  engine=
done
case ${engine:-} in
  "") echo "needs buildah, podman or docker" >&2; exit 1 ;;
  buildah)
    container=$(buildah from --pull-never "$name")
    trap 'buildah rm "$container" >/dev/null' EXIT
    cat "$(buildah mount "$container")/$list" ;;
  *)
    container=$("$engine" create "$name")
    trap '"$engine" rm "$container" >/dev/null' EXIT
    "$engine" cp "$container:/$list" - | tar --extract --to-stdout ;;
esac
