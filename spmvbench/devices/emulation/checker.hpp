// What the scheduler tells the checker (checker.cpp). The fast build calls none of it.
#pragma once
#include "runtime.hpp"

namespace emulation::checker {

void begin_launch(Launch& launch);
void begin_block(Block& block);
void next_epoch();                     // every live thread of the block has passed __syncthreads
void synchronise(u32 warp, u32 group);  // the lanes of `group` have passed __syncwarp
void fence();
void access(const void* p, size_t bytes, Access access, const void* caller);
void issue(Block& block, Warp& warp);  // every live lane waits and some at memory: let one request of them through

}  // namespace emulation::checker
