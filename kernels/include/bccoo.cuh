// Columns of BCCOO; see spmvbench/formats/dense_blocks/bccoo.py.
#pragma once

constexpr int FULL_COLUMN = -32768;  // among differences: the column is stored in block_col
