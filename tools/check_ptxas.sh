#!/bin/bash
# Prints what each CUDA kernel takes of a multiprocessor, as a Markdown table, and fails
# if one spills more than four registers to memory.
#   tools/check_ptxas.sh > docs/cuda_kernels.md
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build --config=bundle --output_groups=ptxas --noshow_progress \
  --ui_event_filters=-info //kernels/cuda:device_kernels >&2

logs=$(find -L bazel-bin/kernels/cuda/_objs -name '*.ptxas' | sort)
cat <<'TEXT'
# CUDA kernels: registers, shared memory, spills

Made by `tools/check_ptxas.sh` from what ptxas says. Static shared memory only; the
matrix tiles of attention are dynamic. No kernel may spill more than 16 bytes of a thread.

| kernel | architecture | registers | shared bytes | spilled bytes |
|---|---|---|---|---|
TEXT
# shellcheck disable=SC2086
awk '
  /Compiling entry function/ {
    split($0, quoted, "\x27"); name = quoted[2]; architecture = quoted[4]
  }
  /bytes spill stores/ {
    for (i = 2; i <= NF; ++i) if ($i == "bytes" && $(i + 1) == "spill" && $(i + 2) ~ /stores/) spill = $(i - 1)
  }
  /Used [0-9]+ registers/ {
    registers = 0; shared = 0
    for (i = 2; i <= NF; ++i) {
      if ($i ~ /registers/) registers = $(i - 1)
      if ($i == "bytes" && $(i + 1) ~ /smem/) shared = $(i - 1)
    }
    print name, architecture, registers, shared, spill
  }' $logs | c++filt | sed 's/tessera::kernels::cuda:://g; s/(anonymous namespace):://g; s/^void //' |
  sed -E 's/\(.*\) (sm_[0-9]+) /\t\1 /; s/^([^\t]*)\t/\1\t/' |
  awk -F'\t' '{ split($2, f, " "); printf "| `%s` | %s | %s | %s | %s |\n", $1, f[1], f[2], f[3], f[4]; if (f[4] > 16) spills = 1 } END { exit spills }' |
  sort
