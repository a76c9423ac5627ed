#!/usr/bin/env bash
# The HTTP door with curl: a login, a topic, a message in and out. BORZOI_HTTP names the door.
set -euo pipefail
door=${BORZOI_HTTP:-http://127.0.0.1:3000}
json="Content-Type: application/json"

token=$(curl -sSf "$door/users/login" -H "$json" -d '{"username": "iggy", "password": "iggy"}' |
    sed 's/.*"token":"\([^"]*\)".*/\1/')
auth="Authorization: Bearer $token"

curl -sSf "$door/streams" -H "$auth" -H "$json" -d '{"name": "http"}' >/dev/null
curl -sSf "$door/streams/http/topics" -H "$auth" -H "$json" -d '{"name": "events", "partitions_count": 1}' >/dev/null
messages=$door/streams/http/topics/events/messages
# Partition 0 as four little-endian bytes, and the payload, in base64.
curl -sSf "$messages" -H "$auth" -H "$json" -d '{
  "partitioning": {"kind": "partition_id", "value": "AAAAAA=="},
  "messages": [{"payload": "'"$(printf hello | base64)"'"}]}'
curl -sSf "$messages?partition_id=0&kind=first&count=1" -H "$auth" |
    sed 's/.*"payload":"\([^"]*\)".*/\1\n/' | base64 --decode
echo
curl -sSf -X DELETE "$door/streams/http" -H "$auth"
