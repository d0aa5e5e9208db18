#!/usr/bin/env bash
# What `./dev gpu-test` runs: everything that is checked and measured on a CUDA device, one line per file or part.
#
#   tools/gpu_test.sh ETRACE [PART…]     parts: doctor suite check same verify train bench sanitizer (default: all)
#
# Logs go to build/gpu-test (or $OUT). Where there is no device the first part says what is missing, and nothing
# else runs. With ETRACE_CUDA_LIBRARY=…/libetrace_played_cuda.so a CPU plays the device, for trying this script.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

etrace=$1
shift
parts=("$@")
((${#parts[@]})) || parts=(doctor suite check same verify train bench sanitizer)
out=${OUT:-build/gpu-test}
mkdir -p "$out"
failed=0

wants() { [[ " ${parts[*]} " == *" $1 "* ]]; }
# NAME COMMAND…: its log, its time and its last line.
part() {
  local name=$1 started=$SECONDS status=0
  shift
  "$@" >"$out/$name.log" 2>&1 || status=$?
  ((status == 0)) || failed=1
  printf '%-10s %-26s %4d s  %s\n' "$([[ $status == 0 ]] && echo ok || echo "FAIL $status")" "$name" \
    $((SECONDS - started)) "$(grep -v '^$' "$out/$name.log" | tail -n 1 | cut -c1-120)"
}

if wants doctor; then
  "$etrace" doctor --cuda | tee "$out/doctor.log"
  [[ ${PIPESTATUS[0]} == 0 ]] || exit 1
fi

# tests/cuda on the device itself. What only a played device can be asked is left out.
[[ -n ${ETRACE_CUDA_LIBRARY:-} ]] || export ETRACE_TEST_ON_DEVICE=1
if wants suite && [[ -n ${ETRACE_TEST_CUDA:-} ]]; then
  part suite "$ETRACE_TEST_CUDA" --gtest_filter='-CudaLearners.MemoryThat*:CudaLearners.TheStatus*:CudaLearners.Played*'
  # What NVRTC makes of all reference cases is seen by `check`.
  part suite_slow "${ETRACE_TEST_CUDA}_slow" --gtest_filter='CudaRules.*:*.AgreesWith*'
fi

# The reference cases in several processes at once: NVRTC takes most of the time. The last line counts them all.
check_cases() {  # OPTION…
  local status=0 log=$out/cases.txt
  printf '%s\n' tests/reference/*.json |
    xargs -P "$(nproc)" -n 4 "$etrace" check --backend cuda "$@" >"$log" 2>&1 || status=1
  grep -vE '^(ok|skip) |^[0-9]+ passed' "$log" | cut -c1-600
  awk '/^[0-9]+ passed/ {p += $1; f += $3; s += $5} END {printf "%d passed, %d failed, %d skipped\n", p, f, s}' "$log"
  return $status
}
if wants check; then
  for stage in forward bptt; do
    part "check_$stage" check_cases --stage "$stage"
  done
  part check_learn check_cases --stage learn --compat braintrace
fi

# Two runs, the same bits.
same_bits() {
  local i
  for i in 1 2; do
    "$etrace" train copying --model lif_expon --backend cuda --updates 20 --seed 1 --quiet --save "$out/same$i.safetensors" || return 1
  done
  cmp "$out/same1.safetensors" "$out/same2.safetensors" && echo "two trainings gave the same bits"
}
wants same && part same_bits same_bits

# A training that goes from the CPU to the device and back, beside one that stays: the parameters agree to 1e-5.
checkpoints() {
  local at=$out/checkpoint.etc how=(copying --model lif_expon --seed 1 --quiet)
  rm -f "$at"
  "$etrace" train "${how[@]}" --backend native --updates 20 --checkpoint "$at" --every 20 || return 1
  "$etrace" train "${how[@]}" --backend cuda --updates 40 --checkpoint "$at" --every 20 --resume || return 1
  "$etrace" train "${how[@]}" --backend native --updates 60 --checkpoint "$at" --every 20 --resume --save "$out/went.safetensors" || return 1
  "$etrace" train "${how[@]}" --backend native --updates 60 --save "$out/stayed.safetensors" || return 1
  python3 tools/compare_tensors.py "$out/went.safetensors" "$out/stayed.safetensors" 1e-5
}
wants same && part checkpoints checkpoints

wants verify && for model in gru lif lif_expon; do
  part "verify_$model" "$etrace" verify "$model" --backend cuda
done
wants train && part train_copying "$etrace" train copying --backend cuda --updates 200
if wants bench; then
  part bench_f32 "$etrace" bench --part device --json "$out/device_f32.json"
  ETRACE_MATMUL_PRECISION=tf32 part bench_tf32 "$etrace" bench --part device --json "$out/device_tf32.json"
  part bench_latency "$etrace" bench --part latency --backend cuda --steps 20000 --threads 1 --json "$out/latency.json"
  part bench_learner "$etrace" bench --part workloads --backend cuda --only W1,W2,W3 --form window --window 64 --threads 1 \
    --rule D_RTRL,pp_prop --json "$out/learner.json"
  cat "$out/bench_f32.log" "$out/bench_tf32.log" "$out/bench_latency.log" "$out/bench_learner.log"
fi
# Learners of three patterns of traces, and kernels that share memory, counters and scratch. Races are looked for
# among shared memory alone, which takes much longer: fewer of each.
sanitized() {  # NAME TOOL CASES TESTS
  part "sanitizer_$1" timeout 120 compute-sanitizer --tool "$2" --target-processes all --error-exitcode 9 \
    "$etrace" check --backend cuda --stage learn --compat braintrace $3
  [[ -z ${ETRACE_TEST_CUDA:-} ]] || part "sanitizer_$1_kernels" timeout 120 compute-sanitizer --tool "$2" \
    --target-processes all --error-exitcode 9 "$ETRACE_TEST_CUDA" --gtest_filter="$4"
}
if wants sanitizer && command -v compute-sanitizer >/dev/null; then
  cases="tests/reference/cell_LSTMCell_b3.json tests/reference/op_conv1d_b3.json tests/reference/op_sparse_csr.json"
  sanitized memcheck memcheck "$cases" 'CudaKernels.*'
  sanitized initcheck initcheck "$cases" 'CudaKernels.*'
  sanitized racecheck racecheck tests/reference/op_sparse_csr.json 'CudaKernels.Folds*:CudaKernels.Rows*:CudaKernels.Products*'
fi
echo "logs: $out"
exit $failed
