#!/bin/bash
# In a bundle, bin/NAME is a link to this: starts programs/NAME, after finding the CUDA
# libraries that it needs and that a bundle does not have, because they are too large.
set -uo pipefail
bundle=$(dirname "$(dirname "$(readlink -f "$0")")")
program=$bundle/programs/${0##*/}
cublaslt=$(<"$bundle/programs/cublaslt") # libcublasLt.so.13, say: what it was built with
nccl=libnccl.so.2

# Where the loader would look by itself.
of_the_loader() {
  local line
  while IFS= read -r line; do
    if [[ $line =~ (libcublasLt|libnccl)\.so.*x86-64.*'=> '(.*)/[^/]+$ ]]; then
      echo "${BASH_REMATCH[2]}"
    fi
  done < <(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null)
}

# Where pip and conda put NVIDIA's packages, which PyTorch brings.
of_python() {
  local root python packages
  for root in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    [[ -n $root ]] && roots+=("$root")
  done
  for python in python3 python; do
    python=$(command -v "$python") || continue
    roots+=("$(dirname "$(dirname "$python")")")
    roots+=("$(dirname "$(dirname "$(readlink -f "$python")")")")
  done
  roots+=("${HOME:-}/.local" /usr/local /usr /opt/conda)
  for root in "${roots[@]}"; do
    for packages in "$root"/lib/python3*/{site,dist}-packages; do
      printf '%s\n' "$packages"/nvidia/*/lib "$packages/torch/lib"
    done
    echo "$root/lib"
  done
}

candidates() {
  local home roots=()
  echo "${LD_LIBRARY_PATH:-}" | tr ':' '\n'
  for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}"; do
    [[ -n $home ]] && printf '%s\n' "$home/lib64" "$home/lib"
  done
  of_python
  printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda-*/lib64
  of_the_loader
}

folders=()
declare -A seen
while IFS= read -r folder; do
  [[ -n $folder && -d $folder && -z ${seen[$folder]:-} ]] || continue
  seen[$folder]=yes
  folders+=("$folder")
done < <(candidates)

# The first folder that has the library.
find_library() {
  local folder
  for folder in "${folders[@]}"; do
    [[ -e $folder/$1 ]] && echo "$folder" && return
  done
  return 1
}

if ! cublaslt_folder=$(find_library "$cublaslt"); then
  others=()
  for folder in "${folders[@]}"; do
    for file in "$folder"/libcublasLt.so.*; do
      [[ -e $file ]] && others+=("$file")
    done
  done
  major=${cublaslt##*.}
  {
    echo "tessera: error: there is no $cublaslt (cuBLASLt of CUDA $major) on this machine;" \
      "install the CUDA $major toolkit or PyTorch for CUDA $major, or put the library's folder" \
      "into LD_LIBRARY_PATH"
    ((${#others[@]})) && echo "  of another version, which will not do: ${others[*]}"
    echo "  looked in: ${folders[*]:-nowhere}"
  } >&2
  exit 1
fi
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cublaslt_folder
# Without NCCL one rank trains all the same, and several are told.
nccl_folder=$(find_library "$nccl") && LD_LIBRARY_PATH+=:$nccl_folder
# Where containers may have the driver.
[[ -e /usr/local/nvidia/lib64/libcuda.so.1 ]] && LD_LIBRARY_PATH+=:/usr/local/nvidia/lib64
export LD_LIBRARY_PATH
exec "$program" "$@"
