#!/bin/bash
# bash tests/runner/scaling.sh [FOLDER [ARCHIVE]]: the same run on all GPUs of this host, on one, and on the powers of two between.
out=${1:-results/scaling}
archive=${2:-$out.tgz}
export MPLBACKEND=Agg
gpus=$(nvidia-smi --list-gpus | wc -l)
counts=
for next in $gpus 1 2 4; do
  if [[ -n $counts ]] && ((next >= gpus)); then break; fi
  counts+=${counts:+,}$next
  python3 tests/runner/scaling.py --workers "$counts" --results "$out" >"$out.txt"
  tar czf "$archive" -C "$out" .
done
cat "$out.txt"
