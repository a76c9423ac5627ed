#!/usr/bin/env bash
# Runs python-liftbridge 0.0.7, unmodified, against a broker:
#
#   tests/liftbridge/python_liftbridge.sh HOST:PORT [CA.pem]
#
# It gets an environment of its own, with the protobuf that it needs and does not name. With the certificates of an
# authority it connects over TLS.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
(($# == 1 || $# == 2)) || { printf 'usage: %s HOST:PORT [CA.pem]\n' "$0" >&2 && exit 2; }

build=$(mktemp -d)
trap 'rm -rf -- "$build"' EXIT
python3 -m venv "$build"
"$build/bin/pip" install --quiet --disable-pip-version-check python-liftbridge==0.0.7 protobuf==3.20.3 grpcio setuptools
"$build/bin/python" -- "$here/python_client/main.py" "$@"
