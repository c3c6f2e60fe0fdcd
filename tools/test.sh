#!/bin/bash
# Installs, builds and runs every test; ends with the line "N passed, N failed".
#   tools/test.sh            everything that CI runs
#   tools/test.sh quick      the tests alone, without sanitizers and linters
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}
tools/install.sh clang-14 clang-tidy clang-format-14 libclang-rt-14-dev util-linux || exit 1

passed=0
failed=0
start=$SECONDS

# A check that is one command: check NAME COMMAND...
check() {
  local name=$1 began=$SECONDS
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "== $name: passed ($((SECONDS - began)) s)"
  else
    failed=$((failed + 1))
    echo "== $name: FAILED ($((SECONDS - began)) s)"
  fi
}

# Bazel's tests, counted one by one: bazel_tests NAME OPTION...
bazel_tests() {
  local name=$1 began=$SECONDS log
  shift
  log=$(mktemp)
  bazel test --noshow_progress --ui_event_filters=-info --keep_going --test_summary=terse --test_output=errors \
    --build_event_text_file="$log.events" "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]} good bad
  good=$(grep -c 'overall_status: PASSED' "$log.events")
  bad=$(grep -c 'overall_status: [^P]' "$log.events")
  # A build that fails runs no test; that is a failure too.
  if ((status != 0 && bad == 0)); then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  rm -f "$log" "$log.events"
  echo "== $name: $good passed, $bad failed ($((SECONDS - began)) s)"
}

formatted() {
  git ls-files '*.cc' '*.cu' '*.h' | xargs clang-format-14 --dry-run --Werror
}

# What nvcc and the host's compiler write differently is in two headers alone.
portable_kernels() {
  ! git grep -nE '__shared__|<<<|\basm\b|\bcub\b' -- '*.cu' 'kernels/cuda/*.h' \
    ':!kernels/cuda/launch.h' ':!kernels/cuda/tensor_core.h'
}

documented() {
  bazel build --config=opt --noshow_progress --ui_event_filters=-info //tools:tessera &&
    diff <(bazel-bin/tools/tessera keys) docs/configuration.md
}

# CUDA is built where its toolkit is.
cuda_home=${CUDA_HOME:-/usr/local/cuda}
cuda=()
[[ -x $cuda_home/bin/nvcc ]] && cuda=(--config=cuda_on_cpu)

bazel_tests "g++" --config=opt //...
check "configuration reference" documented
if [[ $mode == all ]]; then
  if ((${#cuda[@]})); then
    bazel_tests "CUDA on the CPU" --config=opt --config=cuda_on_cpu --build_tests_only --test_tag_filters=cuda //...
    bundle=$(mktemp -d)
    trap 'rm -rf "$bundle"' EXIT
    check "nvcc, into a bundle" tools/gpu_bundle.sh "$bundle/tessera-gpu.tar.gz"
    check "bundle without a GPU" tests/gpu_bundle_test.sh "$bundle/tessera-gpu.tar.gz"
    check "nvcc's registers and spills" tools/check_ptxas.sh
  else
    echo "== no CUDA toolkit in $cuda_home: its backend is neither built nor tested"
  fi
  check "clang-format" formatted
  check "portable kernels" portable_kernels
  check "clang-tidy" bazel build --config=tidy --keep_going --noshow_progress --ui_event_filters=-info //...
  bazel_tests "clang, address and undefined-behaviour sanitizers" \
    --config=clang --config=asan --config=ubsan "${cuda[@]}" //...
  bazel_tests "thread sanitizer" --config=tsan "${cuda[@]}" //...
fi
echo "$((SECONDS - start)) s"
echo "$passed passed, $failed failed"
((failed == 0))
