#!/usr/bin/env bash
# Writes the *.txt anew from the *.in: versions and hashes for every system and Python that we support. Needs uv (PyPI).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
lock() {  # NAME OLDEST-PYTHON [OPTIONS]
  uv pip compile --quiet --upgrade --universal --python-version "$2" --generate-hashes --no-header --no-annotate "${@:3}" "$1.in" -o "$1.txt"
}
lock build 3.10
lock cuda 3.10
lock models 3.11 --constraint build.txt
