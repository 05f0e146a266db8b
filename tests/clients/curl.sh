#!/usr/bin/env bash
# curl submits while the gate is closed, comes back after Retry-After, and waits for the result, by flags alone.
set -euo pipefail
api=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

post() {
  curl --no-progress-meter --retry 20 --retry-max-time 60 --max-time 60 \
    -H 'Content-Type: application/json' -H "Idempotency-Key: curl-$$" -d '{"from": "curl"}' \
    -D "$scratch/head" -o "$scratch/body" -w '%{http_code}' "$api/v1/direct"
}

# The file has the head of each attempt; the last one counts.
header() {
  sed -n "s/^$1: //Ip" "$scratch/head" | tr -d '\r' | tail -n 1
}

status=$(post)
location=$(header location)
echo "POST: $status, $location, after $(grep -c '^HTTP/' "$scratch/head") attempts"
[ "$status" = 202 ] && [ -n "$location" ]

get() {
  curl --no-progress-meter --retry 20 --retry-max-time 60 --max-time 60 -H 'Prefer: wait=30' \
    -D "$scratch/head" -o "$scratch/body" -w '%{http_code}' "$api$location"
}

status=$(get)
while [ "$status" = 202 ]; do
  sleep "$(header retry-after)"
  status=$(get)
done
echo "GET: $status, $(cat "$scratch/body")"
[ "$status" = 200 ]
grep -q '"status":"succeeded"' "$scratch/body"

# The same submission again, as after a lost answer.
status=$(post)
echo "POST again: $status, replayed: $(header idempotency-replayed)"
[ "$status" = 200 ] && [ "$(header idempotency-replayed)" = true ] && [ "$(header location)" = "$location" ]
