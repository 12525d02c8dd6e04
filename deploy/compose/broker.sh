#!/bin/bash
# Starts the broker of compose.yaml in Kafka's own image: formats its volume once, with the user `admin`.
set -euo pipefail
umask 077
settings=/tmp/server.properties users=/tmp/users.arguments
read -r password </run/secrets/broker-password || test -n "$password"
[[ $password =~ ^[A-Za-z0-9_-]+$ ]] || { echo "the password of admin: must be of letters, digits, _ and -"; exit 2; }
controller=$(</proc/sys/kernel/random/uuid)
while IFS= read -r line; do
  line=${line//'${password}'/$password}
  echo "${line//'${controller_password}'/$controller}"
done </etc/mirrormesh/broker.properties >"$settings"
# in a file, as everyone in the container can see a command line
printf '%s\n' --add-scram "SCRAM-SHA-512=[name=admin,password=$password]" >"$users"
/opt/kafka/bin/kafka-storage.sh format --standalone --ignore-formatted --cluster-id bWlycm9ybWVzaC10cmFjaw \
  --config "$settings" "@$users"
rm "$users"
exec /opt/kafka/bin/kafka-server-start.sh "$settings"
