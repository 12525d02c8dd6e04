#!/bin/sh
# Writes a password for each user of compose.yaml into its file in secrets/, where there is none yet.
#
#     deploy/compose/passwords.sh
#
# Containers read a file as other users than you, so it is readable, and the folder is not.
set -eu
umask 077
cd "$(dirname "$0")/secrets"
chmod 700 .
for user in $(sed -n 's#.*{file: ./compose/secrets/\([a-z-]*\)}#\1#p' ../../compose.yaml); do
  test -s "$user" || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$user"
  chmod 444 "$user"
done
