// How sell-window stores columns, for its product and its conversion.
#pragma once

constexpr int GROUP = 8;        // positions whose columns share words
constexpr int QUARTER = 8;      // words that are a byte of each thread
constexpr int WIDTH_UNIT = 64;  // a slice's width is stored times this, its bits below
