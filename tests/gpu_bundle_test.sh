#!/bin/bash
# What a bundle needs of a machine, and what it does on one without a GPU.
#   tests/gpu_bundle_test.sh ARCHIVE
set -uo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$1" -C "$folder" || exit 1
cd "$folder" || exit 1
bundle=$folder/tessera-gpu
failed=0

fail() {
  echo "FAILED: $*"
  failed=1
}

# expect STATUS PATTERN COMMAND...: what COMMAND, in a nearly empty environment that hides
# every GPU, ends with and prints.
expect() {
  local wanted=$1 pattern=$2 output status
  shift 2
  output=$(env -i PATH=/usr/bin:/bin CUDA_VISIBLE_DEVICES= "${environment[@]}" "$@" 2>&1)
  status=$?
  ((status == wanted)) && [[ $output =~ $pattern ]] && return
  fail "$*: status $status, not $wanted; or no \"$pattern\" in:"
  echo "$output" | tail -n 20
}
environment=()

# Nothing that an older Linux may lack, and no place of this machine.
newest=2.34
for program in "$bundle"/programs/{tessera,gpu_facts,gpu_tests}; do
  name=${program##*/}
  version=$(objdump -T "$program" | grep -oE 'GLIBC_[0-9.]+' | cut -d_ -f2 | sort -uV | tail -n 1)
  [[ $(printf '%s\n' "$version" "$newest" | sort -V | tail -n 1) == "$newest" ]] ||
    fail "$name needs glibc $version"
  others=$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vxE 'libcublasLt\.so\.[0-9]+|lib(c|m|gcc_s|dl|pthread|rt)\.so\.[0-9]|ld-linux-x86-64\.so\.2')
  [[ -z $others ]] || fail "$name needs" "$others"
  objdump -p "$program" | grep -E 'RPATH|RUNPATH' && fail "$name looks for libraries where it was built"
done

# The command.
no_gpu='tessera: error: (rank 0: )?(there is no NVIDIA driver|there is no GPU|no GPU is visible)'
expect 0 '^usage:' "$bundle/bin/tessera" help
expect 2 'there is no command "trian"; did you mean train\?' "$bundle/bin/tessera" trian
expect 2 'expected auto, cpu or cuda' "$bundle/bin/tessera" train \
  "$bundle/configs/quickstart.yaml" --device tpu
expect 0 '' "$bundle/bin/tessera" data "$bundle/README.md" "$bundle/LICENSE" --train train.bin \
  --validation validation.bin --held-out 20
train=("$bundle/bin/tessera" train "$bundle/configs/quickstart.yaml"
  --set data.train=train.bin --set data.validation=validation.bin --set schedule.steps=2
  --set schedule.warmup_steps=1 --set evaluate.batches=1 --set sample.length=0)
expect 1 "$no_gpu" "${train[@]}" --device cuda
expect 0 'validation loss' "${train[@]}" --device cpu
expect 0 'validation loss' "${train[@]}" --device cpu --ranks 2
expect 0 'parameters' "$bundle/bin/tessera" plan "$bundle/configs/quickstart.yaml" --device cuda

# Its matrix products on the CPU are not those of other builds.
expect 0 'PASSED  \] 6 tests' "$bundle/bin/gpu_tests" --gtest_filter='MatMul.*:Gemm.*'

# Where the libraries are looked for: a program that only says what it was given.
elsewhere=$folder/elsewhere
mkdir -p "$elsewhere"
cp -r "$bundle/bin" "$elsewhere"
mkdir "$elsewhere/programs"
echo libcublasLt.so.99 >"$elsewhere/programs/cublaslt"
# shellcheck disable=SC2016
printf '#!/bin/bash\necho "$LD_LIBRARY_PATH: $*"\n' >"$elsewhere/programs/tessera"
chmod +x "$elsewhere/programs/tessera"
expect 1 'tessera: error: there is no libcublasLt.so.99 \(cuBLASLt of CUDA 99\)' "$elsewhere/bin/tessera" help
environment=(CUDA_HOME="$folder/cuda")
mkdir -p cuda/lib64
touch cuda/lib64/libcublasLt.so.98
expect 1 'of another version, which will not do: .*/cuda/lib64/libcublasLt.so.98' "$elsewhere/bin/tessera" help
expect 1 'looked in: .*/cuda/lib64' "$elsewhere/bin/tessera" help
touch cuda/lib64/libcublasLt.so.99
expect 0 '/cuda/lib64.*: a b$' "$elsewhere/bin/tessera" a b
packages=venv/lib/python3.12/site-packages
for place in nvidia/cublas/lib nvidia/cu99/lib torch/lib; do
  environment=(VIRTUAL_ENV="$folder/venv")
  mkdir -p "$packages/$place" "$packages/nvidia/nccl/lib"
  touch "$packages/$place/libcublasLt.so.99" "$packages/nvidia/nccl/lib/libnccl.so.2"
  expect 0 "/$place:.*/nvidia/nccl/lib" "$elsewhere/bin/tessera"
  rm -r venv
done
environment=(LD_LIBRARY_PATH="$folder/cuda/lib64")
expect 0 '^[^:]*/cuda/lib64' "$elsewhere/bin/tessera"
environment=()

# The check: refuses without a GPU, and tells one failing part from the others.
expect 1 "$no_gpu" "$bundle/tools/gpu_check.sh"
cp -r "$bundle/tools" "$bundle/configs" "$elsewhere"
rm "$elsewhere"/bin/*
cat >"$elsewhere/bin/gpu_facts" <<'TEXT'
#!/bin/bash
printf '%s\n' gpus=2 'gpu=A "GPU"' compute_capability=9.0 driver_cuda=13.0 runtime_cuda=13.0 \
  cublaslt=130002 nccl=none
TEXT
cat >"$elsewhere/bin/gpu_tests" <<'TEXT'
#!/bin/bash
echo '[ RUN      ] A.B'
echo '[       OK ] A.B (3 ms)'
[[ $* == *-Cuda* ]] || exit 0
echo '[ RUN      ] A.C'
echo '[  FAILED  ] A.C, where GetParam() = 1 (3 ms)'
echo '[ RUN      ] A.D'
exit 139
TEXT
cat >"$elsewhere/bin/tessera" <<'TEXT'
#!/bin/bash
while (($#)); do
  case $1 in
    --metrics)
      echo '{"step":1,"loss":2.5,"tokens_per_second":12345.6}' >"$2"
      echo '{"step":1,"validation_loss":1.25}' >>"$2"
      ;;
    --json) echo '{"mfu": 0.5}' >"$2" ;;
    --ranks) echo "tessera: error: a reason" && exit 1 ;;
  esac
  shift
done
TEXT
chmod +x "$elsewhere"/bin/*
expect 1 'kernels +failed +[0-9]+ +1 passed, 1 failed, 0 skipped: A.C; ended in A.D' \
  "$elsewhere/tools/gpu_check.sh" report
expect 1 'same-bits +passed +[0-9]+ +1 passed, 0 failed' "$elsewhere/tools/gpu_check.sh" report
expect 1 'training +passed +[0-9]+ +validation loss 1.250 .*, 12346 tokens/s' \
  "$elsewhere/tools/gpu_check.sh" report
expect 1 'two-ranks +failed +[0-9]+ +tessera: error: a reason' "$elsewhere/tools/gpu_check.sh" report
for text in '"gpu": "A \"GPU\""' '"benchmark": {"mfu": 0.5}' \
  '"part": "same-bits", "result": "passed"'; do
  grep -qF -e "$text" report/gpu_check.json || fail "no $text in gpu_check.json"
done

((failed)) || echo "the bundle starts, and says what it lacks"
exit "$failed"
