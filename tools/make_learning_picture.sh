#!/usr/bin/env bash
# The picture of the README, from four runs of a few seconds: tools/make_learning_picture.sh > docs/_static/learning.svg
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
train() {  # NAME [OPTIONS]
  local name=$1
  shift
  build/bin/etrace train copying --model gru --set symbols=3 --set alphabet=4 --set lag=10 --hidden 48 --updates 2400 --check-every 40 --seed 1 --quiet --runs "$runs" --name "$name" "$@" >&2
}
train bptt --rule D_RTRL --window 100
train windows --rule D_RTRL --window 8
train single --rule D_RTRL --method single-step
train pp --rule pp_prop --window 8
tools/plot_runs.py "D_RTRL, windows of 8=$runs/windows" "pp_prop, windows of 8=$runs/pp" "D_RTRL, single steps=$runs/single" "BPTT=$runs/bptt"
