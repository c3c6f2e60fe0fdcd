#!/bin/bash
# From a clone to a trained model: installs, builds, makes a corpus from the GCIDE
# dictionary, and trains a small GPT on two ranks.
#   tools/quickstart.sh [--set key.path=value]...   as for `tessera train`
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install.sh dict-gcide

echo "building (a few minutes the first time)"
bazel build --config=opt --ui_event_filters=-info --noshow_progress //tools:tessera
tessera=bazel-bin/tools/tessera

if [[ ! -e corpus/train.bin || ! -e corpus/validation.bin ]]; then
  echo "making the corpus"
  mkdir -p corpus
  text=$(mktemp)
  trap 'rm -f "$text"' EXIT
  zcat /usr/share/dictd/gcide.dict.dz >"$text"
  "$tessera" data "$text" --train corpus/train.bin --validation corpus/validation.bin
fi

options=()
if ! grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then
  echo "this processor has no bf16 instructions: training in fp32"
  options+=(--set precision=fp32)
fi
mkdir -p runs/quickstart
exec "$tessera" train configs/quickstart.yaml --ranks 2 "${options[@]}" "$@" \
  --metrics runs/quickstart/metrics.jsonl --curve runs/quickstart/loss.svg
