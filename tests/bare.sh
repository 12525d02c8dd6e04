#!/usr/bin/env bash
# Runs the tests that ask for a program, a terminal or a home (tests/support/processes/asking.py) as on a bare machine:
# an empty home, no settings, no terminal or a dumb one, and no programs but these. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
mkdir "$bare/bin" "$bare/home"
for program in sh env cat mkdir sleep git make; do
  ln -s "$(command -v "$program")" "$bare/bin"
done
mapfile -d '' index < <(env -0 | grep -zE '^(PIP_|SSL_CERT_|[a-zA-Z]+_(proxy|PROXY)=)' || true)  # the way to it
bare=(env -i "PATH=$bare/bin" "HOME=$bare/home" LANG=C "${index[@]}")

"${bare[@]}" .venv/bin/pytest "$@" --asked-for any
"${bare[@]}" TERM=dumb .venv/bin/pytest "$@" --asked-for TERM
