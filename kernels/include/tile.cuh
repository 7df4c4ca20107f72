// Tiles of 16 x 16 entries (TileSpMV, Niu et al., IPDPS 2021); see spmvbench/formats/tile/convert.py.
#pragma once

constexpr int TILE = 16;
enum TileFormat { CSR, COO, ELL, HYB, DNS, DNS_ROW, DNS_COL };  // the authors' numbers
using Byte = unsigned char;
