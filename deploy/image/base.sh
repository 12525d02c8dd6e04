#!/usr/bin/env bash
# Makes the base image localhost/mirrormesh-base of Debian's packages, for tests and for where no registry of images
# is reached: Python, a shell, and the certificates of authorities. Takes the packages from where this Debian does.
#
#     deploy/image/base.sh
#
# Needs root, mmdebstrap and buildah.
set -euo pipefail

name=localhost/mirrormesh-base
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC1091 # describes the system
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016 # apt's own variables
apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' \
  >"$folder/sources.list"
test -s "$folder/sources.list" || { echo "no package lists: run apt-get update first"; exit 1; }

# extracted and not set up, which takes seconds where the other takes a minute: the hooks do what is needed of it
# shellcheck disable=SC2016 # "$1" is the hook's
mmdebstrap --quiet --variant=extract --format=tar \
  --include=base-files,base-passwd,ca-certificates,coreutils,dash,libc-bin,libstdc++6,python3-venv \
  --aptopt='Acquire::Languages "none"' \
  --customize-hook='for f in passwd group; do cp "$1/usr/share/base-passwd/$f.master" "$1/etc/$f"; done' \
  --customize-hook='cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"' \
  --customize-hook='rm -rf "$1"/usr/share/{doc,man,locale,info}' \
  "$release" "$folder/root.tar" "$folder/sources.list"

container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null; rm -rf "$folder"' EXIT
buildah add --quiet "$container" "$folder/root.tar" / >/dev/null
buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit --quiet "$container" "$name" >/dev/null
echo "$name"
