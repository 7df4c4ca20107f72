// Tiles of 16 x 16 entries (TileSpMV, Niu et al., IPDPS 2021); see spmvbench/formats/tile/convert.py.
#pragma once

constexpr int TILE = 16;
constexpr int CSR = 0, COO = 1, ELL = 2, HYB = 3, DNS = 4, DNS_ROW = 5, DNS_COL = 6;  // the authors' numbers
using Byte = unsigned char;
