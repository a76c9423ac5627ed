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
# Its whole surface: each function and method that it exports is called.
surface=$(go doc -all github.com/liftbridge-io/go-liftbridge/v2 |
    sed -nE 's/^func (\([^)]*\) )?([A-Z][A-Za-z]*).*/\2/p; s/^\t([A-Z][A-Za-z]*)\(.*/\1/p' | sort -u)
(($(wc -l <<<"$surface") > 100)) || { printf 'the surface of the Go client cannot be read\n' >&2 && exit 1; }
for name in $surface; do
    grep -q "\.$name(" main.go || { printf 'main.go does not call %s\n' "$name" >&2 && exit 1; }
done
./client "$1" ${authority:+"$authority"}
