// Strips of rows; see spmvbench/formats/dense_blocks/strips.py.
#pragma once

constexpr int STRIP = 32;  // rows
