#!/bin/bash
# bash tests/bench/scaling.sh [FOLDER [ARCHIVE]]: one, two and four GPUs, and faults on four, on a host with four GPUs, in some six minutes.
# The same run on four GPUs, on one and on two; then formats with faults beside right ones, while processes are killed.
out=${1:-results/scaling}
archive=${2:-$out.tgz}
export MPLBACKEND=Agg
for counts in 4 4,1 4,1,2; do
  python3 tests/bench/scaling.py --workers $counts --results "$out" >"$out.txt"
  tar czf "$archive" -C "$out" .
done
cat "$out.txt"
python3 tests/bench/chaos.py --device cuda:0 --workers 4 --local --seconds 60 --moments 12 --pause 3 --kinds worker,worker,child \
  --matrices uniform:262144:12 fem:20:3 band:262144:12:2000 pde:50 --formats 'csr-scalar,csr-vector,ell,sell-p,hyb,coo-flat,csr5,hll' \
  --faults hang=2,fault=2,lie=9,hungry=9 --options '--dtype f64 --mode hot --convert device --timeout 4 --budget 0.02' \
  --results "$out" | tee "$out/chaos.txt"
tar czf "$archive" -C "$out" .
