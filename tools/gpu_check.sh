#!/bin/bash
# On a machine with a GPU, in a bundle made by tools/gpu_bundle.sh: tests, trains and
# measures, in under eight minutes; docs/gpu_check.md.
#   tools/gpu_check.sh [FOLDER]     for the report; default: gpu_check
# Needs bash and coreutils alone.
set -uo pipefail
export LC_ALL=C
bundle=$(dirname "$(dirname "$(readlink -f "$0")")")
report=${1:-gpu_check}
bin=$bundle/bin
seconds_in_all=470
goal=1.55        # nats per byte: where the quickstart's validation loss must be below
on_the_cpu=1.154 # and where it ended on a CPU

if [[ ! -x $bin/gpu_tests ]]; then
  echo "tessera: error: $bundle is no bundle; make one with tools/gpu_bundle.sh, unpack it, and" \
    "run its tools/gpu_check.sh" >&2
  exit 1
fi
mkdir -p "$report" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# The machine: "key=value" lines, or what is missing.
"$bin/gpu_facts" >"$scratch/facts" || exit 1
keys=(driver)
declare -A fact=([driver]=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0 2>/dev/null ||
  echo unknown))
while IFS='=' read -r key value; do
  keys+=("$key")
  fact[$key]=$value
done <"$scratch/facts"
echo "${fact[gpu]}, compute capability ${fact[compute_capability]}, ${fact[gpus]} in all;" \
  "driver ${fact[driver]} for CUDA ${fact[driver_cuda]}; CUDA ${fact[runtime_cuda]}," \
  "cuBLASLt ${fact[cublaslt]}, NCCL ${fact[nccl]}"

json_text() {
  local text=${1//[[:cntrl:]]/ }
  text=${text//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

parts=()  # JSON objects
failed=0
say() { printf '%-10s %-8s %5s  %s\n' "$@"; }

# part NAME LIMIT FIGURE COMMAND...: runs COMMAND for at most LIMIT seconds, its output in
# FOLDER/NAME.log. FIGURE is a function that prints what is worth a line of it, with the
# log's path as its argument, and can turn a success into a failure.
part() {
  local name=$1 limit=$2 figure=$3 log=$report/$1.log began=$SECONDS status result text
  shift 3
  local left=$((seconds_in_all - SECONDS))
  ((limit < left)) || limit=$left
  if ((limit < 1)); then
    note "$name" "not run" 0 "no time was left"
    failed=1
    return
  fi
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  status=$?
  result=passed
  text=$("$figure" "$log") || result=failed
  ((status == 0)) || result=failed
  ((status != 124 && status != 137)) || text="stopped after $limit s; $text"
  [[ $result == passed ]] || failed=1
  note "$name" "$result" $((SECONDS - began)) "$text"
}

note() {
  say "$@"
  parts+=("{\"part\": $(json_text "$1"), \"result\": $(json_text "$2"), \"seconds\": $3, \"figure\": $(json_text "$4")}")
}

# shellcheck disable=SC2317 # the figures are called by their names
tests_figure() {
  local line running="" passed=0 bad=0 skipped=0 names=""
  while IFS= read -r line; do
    case $line in
      '[ RUN      ] '*) running=${line#*] } && continue ;;
      '[       OK ] '*) passed=$((passed + 1)) ;;
      '[  SKIPPED ] '*' ms)') skipped=$((skipped + 1)) ;;
      '[  FAILED  ] '*' ms)')
        bad=$((bad + 1))
        ((bad > 3)) || names+=" $running"
        ;;
      *) continue ;;
    esac
    running=""
  done <"$1"
  echo "$passed passed, $bad failed, $skipped skipped${names:+:$names}${running:+; ended in $running}"
  ((passed > 0 && bad == 0))
}

# shellcheck disable=SC2317
last_line() {
  local line last=""
  while IFS= read -r line; do
    [[ -n $line ]] && last=$line
  done <"$1"
  echo "$last"
}

# The last value of a key in a file of JSON objects, one a line.
# shellcheck disable=SC2317
last_value() {
  local line value=""
  while IFS= read -r line; do
    [[ $line =~ \"$2\":([-+.0-9eE]+) ]] && value=${BASH_REMATCH[1]}
  done <"$1"
  echo "$value"
}

# shellcheck disable=SC2317
training_figure() {
  local metrics=$scratch/metrics.jsonl loss="" rate
  [[ -e $metrics ]] && loss=$(last_value "$metrics" validation_loss)
  if [[ -z $loss ]]; then
    last_line "$1"
    return 1
  fi
  rate=$(last_value "$metrics" tokens_per_second)
  printf 'validation loss %.3f (below %s; on a CPU %s), %.0f tokens/s\n' \
    "$loss" "$goal" "$on_the_cpu" "$rate"
  # Whole numbers are all that bash compares.
  (($(printf '%.0f' "${loss}e6") < $(printf '%.0f' "${goal}e6")))
}

say part result time figure
part kernels 200 tests_figure "$bin/gpu_tests" --gtest_filter='-CudaTrainingTest.*'
# The whole matrix of a world of one; with worlds of several GPUs, a part of a larger one.
((fact[gpus] > 1)) || export TESSERA_LONG=1
part same-bits 120 tests_figure "$bin/gpu_tests" --gtest_filter='CudaTrainingTest.*'
part corpus 30 last_line "$bin/tessera" data "$bundle/corpus/gcide.txt" \
  --train "$scratch/train.bin" --validation "$scratch/validation.bin"
train=("$bin/tessera" train "$bundle/configs/quickstart.yaml" --device cuda
  --set "data.train=$scratch/train.bin" --set "data.validation=$scratch/validation.bin")
part training 90 training_figure "${train[@]}" --metrics "$scratch/metrics.jsonl"
if ((fact[gpus] > 1)); then
  part two-ranks 60 last_line "${train[@]}" --ranks 2 --set schedule.steps=100 \
    --set sample.length=0
else
  note two-ranks "not run" 0 "there is one GPU"
fi
# Last, for all the time that is left.
part benchmark "$seconds_in_all" last_line "$bin/tessera" bench gpu --json "$scratch/benchmark.json"

benchmark=null
[[ -s $scratch/benchmark.json ]] && benchmark=$(<"$scratch/benchmark.json")
{
  echo "{"
  for key in "${keys[@]}"; do
    value=${fact[$key]}
    [[ $value =~ ^[0-9]+$ ]] || value=$(json_text "$value")
    echo "  $(json_text "$key"): $value,"
  done
  echo "  \"parts\": ["
  for ((i = 0; i < ${#parts[@]}; ++i)); do
    echo "    ${parts[i]}$( ((i + 1 < ${#parts[@]})) && echo ,)"
  done
  echo "  ],"
  echo "  \"benchmark\": $benchmark,"
  echo "  \"seconds\": $SECONDS"
  echo "}"
} >"$report/gpu_check.json"
cat "$report/benchmark.log"
echo "in all $SECONDS s; $report/gpu_check.json, and the output of each part beside it"
exit "$failed"
