#!/bin/bash
# Writes compile_commands.json, for clang tools and editors, from what Bazel would
# run:  tools/compile_commands.sh [BAZEL-OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
external=$(bazel info output_base 2>/dev/null)/external/

bazel aquery --output=textproto "$@" 'mnemonic("CppCompile", //...)' 2>/dev/null |
  awk -v root="$root" -v external="$external" '
    # Of dependency files clang tools know nothing, nor of these g++ flags.
    BEGIN {
      split("-MD -MMD -fno-canonical-system-headers -Wno-free-nonheap-object " \
            "-Wunused-but-set-parameter", names, " ")
      for (i in names) drop[names[i]] = 1
      printf "["
    }
    # A source may be compiled for several targets: one entry is enough.
    function finish() {
      if (source != "" && !(source in seen)) {
        printf "%s\n{\"directory\": \"%s\", \"file\": \"%s\", \"arguments\": [%s]}",
               count++ ? "," : "", root, source, arguments
        seen[source] = 1
      }
      arguments = source = ""
    }
    /^ *actions \{/ { finish() }
    /^ *arguments: / {
      sub(/^ *arguments: "/, "")
      argument = substr($0, 1, length($0) - 1)
      if (skip) { skip = 0; next }
      if (argument == "-MF") { skip = 1; next }
      if (argument in drop) next
      if (previous == "-c") source = argument
      previous = argument
      if (argument ~ /^external\//) argument = external substr(argument, 10)
      arguments = arguments (arguments == "" ? "" : ", ") "\"" argument "\""
    }
    END { finish(); print "\n]"; print count + 0 " files" >"/dev/stderr" }' >compile_commands.json
