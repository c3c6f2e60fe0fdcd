#!/bin/bash
# plant.sh SOURCE OUT [NUMBER TEXT FAULTY]...: OUT is SOURCE with every TEXT, which must
# occur once, replaced by FAULTY, in which FAULT stands for whether fault NUMBER is on.
set -euo pipefail
source=$1 out=$2
shift 2
content=$(<"$source")
while (($# > 0)); do
  number=$1 text=$2 faulty=$3
  shift 3
  rest=${content#*"$text"}
  if [[ $rest == "$content" || $rest == *"$text"* ]]; then
    printf '%s: this must occur once, for a fault to be planted there:\n%s\n' "$source" "$text" >&2
    exit 1
  fi
  before=${content%%"$text"*}
  content=$before${faulty//FAULT/(::tessera::planted_fault == $number)}$rest
done
printf '#include "tests/cuda_on_cpu/faults/planted.h"\n#line 1 "%s"\n%s\n' "$source" "$content" >"$out"
