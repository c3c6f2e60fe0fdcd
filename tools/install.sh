#!/bin/bash
# Installs the Debian packages that the build needs, if any is missing. With
# arguments: those packages as well.
set -euo pipefail
packages=(
  bazel-bootstrap g++ pkg-config
  libabsl-dev libyaml-cpp-dev libgtest-dev libgmock-dev nlohmann-json3-dev
  libeigen3-dev liburing-dev libdnnl-dev libxxhash-dev libopenmpi-dev openmpi-bin
  "$@"
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
((${#missing[@]})) || exit 0
echo "installing: ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "tessera: error: run as root, or install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
