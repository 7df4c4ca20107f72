#!/bin/bash
# bash tests/runner/faults.sh [FOLDER]: formats with faults beside right ones on all GPUs of this host, while processes are killed.
gpus=$(nvidia-smi --list-gpus | wc -l)
python3 tests/runner/chaos.py --device cuda:0 --workers "$gpus" --local --seconds 60 --moments 12 --pause 3 --kinds worker,worker,child \
  --matrices uniform:262144:12 fem:20:3 band:262144:12:2000 pde:50 --formats 'csr-scalar,csr-vector,ell,sell-p,hyb,coo-flat,csr5,hll' \
  --faults hang=2,fault=2,wrong=9,hungry=9 --options '--dtype f64 --mode hot --convert device --timeout 4 --budget 0.02' \
  --results "${1:-results/faults}"
