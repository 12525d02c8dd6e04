#!/usr/bin/env bash
# Builds what a release consists of: sdist, wheel and the list of its parts (CycloneDX); checks their
# metadata, installs the wheel into an empty environment, and runs the demo from there. With BASE, which names the
# base image as in deploy/image/build.sh, also the image (an OCI archive) and the list of its parts.
#
#     deploy/release.sh [FOLDER]
#     BASE=NAME@sha256:DIGEST deploy/release.sh
#
# FOLDER: where they go (dist); what was in it is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
dist=$(realpath --canonicalize-missing "${1:-dist}")

rm -rf "$dist"
"$bin/python" -m build --no-isolation --outdir "$dist" >/dev/null
"$bin/python" -m twine check --strict "$dist"/*
wheel=$(ls "$dist"/*.whl)
name=${wheel%-py3-none-any.whl}

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
"$bin/python" -m venv "$empty/environment"
"$empty/environment/bin/python" -m pip install --quiet --disable-pip-version-check \
  --constraint requirements.lock "$wheel"
mkdir "$empty/folder"
(cd "$empty/folder" && env -i HOME="$empty/folder" PATH=/usr/bin:/bin "$empty/environment/bin/mirrormesh" demo --rounds 60)
test -z "$(ls -A "$empty/folder")" || { echo "the demo left files behind: $(ls -A "$empty/folder")" >&2; exit 1; }
"$bin/cyclonedx-py" environment --pyproject pyproject.toml --output-reproducible \
  --output-file "$name.sbom.json" "$empty/environment/bin/python"

if [[ -n ${BASE:-} ]]; then
  image=localhost/mirrormesh-release
  deploy/image/build.sh "$image"
  deploy/image/sbom.sh "$image" >"$name.image.sbom.json"
  buildah push --quiet "$image" "oci-archive:$name.image.tar"
else
  echo "no image: BASE must name the base image (deploy/image/build.sh)"
fi
(cd "$dist" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
