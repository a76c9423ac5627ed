#!/usr/bin/env bash
# Runs the official Go client, github.com/liftbridge-io/go-liftbridge/v2 at v2.3.0, unmodified, against a broker:
#
#   tests/liftbridge/go_client.sh HOST:PORT [CA.pem]
#
# With the certificates of an authority it connects over TLS.
# It comes by its version through Go's proxy; the checksum database is not asked. Code 77: no Go here.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
if ! command -v go >/dev/null; then
    printf 'go is not there: the Go client is skipped\n' >&2
    exit 77
fi
(($# == 1 || $# == 2)) || { printf 'usage: %s HOST:PORT [CA.pem]\n' "$0" >&2 && exit 2; }
authority=${2:+$(readlink -f -- "$2")}

build=$(mktemp -d)
trap 'rm -rf -- "$build"' EXIT
cp -- "$here"/go_client/{go.mod,main.go} "$build"
cd -- "$build"
export GOFLAGS=-mod=mod GONOSUMDB='*' GONOSUMCHECK=1 GOSUMDB=off GOTOOLCHAIN=local
go build -o client .
./client "$1" ${authority:+"$authority"}
