#!/bin/bash
# Makes one archive with the command, all tests of the GPU and the quickstart's corpus,
# for any Linux machine with a GPU: docs/gpu_check.md.
#   tools/gpu_bundle.sh [FILE]      default: tessera-gpu.tar.gz
set -euo pipefail
cd "$(dirname "$0")/.."
archive=$(realpath -m "${1:-tessera-gpu.tar.gz}")
largest=60000000
tools/install.sh lld dict-gcide

bazel build --config=bundle --noshow_progress --ui_event_filters=-info \
  //tools:tessera //tools/bundle:gpu_facts //tools/bundle:gpu_tests

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bundle=$folder/tessera-gpu
mkdir -p "$bundle"/{bin,programs,tools,configs,corpus,licenses}

programs=(bazel-bin/tools/tessera bazel-bin/tools/bundle/{gpu_facts,gpu_tests})
cp "${programs[@]}" "$bundle/programs"
objdump -p "${programs[0]}" | awk '/NEEDED +libcublasLt/ { print $2 }' >"$bundle/programs/cublaslt"
cp tools/bundle/start.sh "$bundle/bin/start"
for program in "${programs[@]}"; do
  ln -s start "$bundle/bin/${program##*/}"
done
cp tools/gpu_check.sh "$bundle/tools"
cp configs/quickstart.yaml "$bundle/configs"
cp docs/gpu_check.md "$bundle/README.md"
zcat /usr/share/dictd/gcide.dict.dz >"$bundle/corpus/gcide.txt"

# Of what is linked in, and of the corpus.
cp LICENSE "$bundle"
for package in dict-gcide libabsl-dev libeigen3-dev libgtest-dev libstdc++-12-dev liburing-dev \
  libyaml-cpp-dev nlohmann-json3-dev; do
  cp "/usr/share/doc/$package/copyright" "$bundle/licenses/$package"
done
cp -L /usr/share/common-licenses/{Apache-2.0,GPL-2,GPL-3,MPL-2.0} "$bundle/licenses"
cat >"$bundle/licenses/cuda" <<'TEXT'
The programs contain NVIDIA's CUDA runtime (cudart_static), under the CUDA Toolkit's End User
License Agreement: https://docs.nvidia.com/cuda/eula/
TEXT

chmod -R u+w,go+rX "$bundle"
# The same archive from the same commit.
time=$(git log -1 --format=@%ct)
tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime="$time" -c tessera-gpu |
  gzip -n >"$archive"
size=$(stat -c %s "$archive")
if ((size > largest)); then
  echo "tessera: error: $archive has $size bytes; $largest are allowed" >&2
  exit 1
fi
echo "$archive: $size bytes"
