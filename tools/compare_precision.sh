#!/bin/bash
# Trains the quickstart's model for 300 steps in fp32 and in bf16, and compares the
# validation losses: they must be within 1% of each other. At half the quickstart's
# learning rate: at its own, runs that differ by a rounding are 1 to 2% apart after
# so few steps. Needs the quickstart's corpus and build; takes about two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for precision in fp32 bf16; do
  bazel-bin/tools/tessera train configs/quickstart.yaml --ranks 2 --set precision=$precision \
    --set schedule.steps=300 --set schedule.warmup_steps=30 --set evaluate.every=0 \
    --set sample.length=0 --set optimizer.learning_rate=2e-3 --metrics "$folder/$precision.jsonl" >/dev/null
done
loss() { sed -n 's/.*"validation_loss":\([^,}]*\).*/\1/p' "$folder/$1.jsonl" | tail -n 1; }
awk -v fp32="$(loss fp32)" -v bf16="$(loss bf16)" 'BEGIN {
  difference = (bf16 - fp32) / fp32
  printf "validation loss after 300 steps: fp32 %.4f, bf16 %.4f, difference %+.2f%%\n",
         fp32, bf16, 100 * difference
  exit !(difference < 0.01 && difference > -0.01)
}'
