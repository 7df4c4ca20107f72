// Places of the column sweep; see spmvbench/formats/cache_blocking/column_sweep.py.
#pragma once

constexpr int THREADS = 1024;                // of a block
constexpr unsigned PADDING = 0xffffu;        // as the row of a place: no entry
constexpr unsigned CONTINUED = 0x80000000u;  // in row_start: the block's first row began in the block before
