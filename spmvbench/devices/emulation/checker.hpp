// What the scheduler reports to the checker (checker.cpp). The fast build calls none of it.
#pragma once
#include "runtime.hpp"

namespace emulation::checker {

enum class Access : unsigned char { READ, WRITE, VOLATILE_READ, VOLATILE_WRITE, ATOMIC };

void begin_launch(Launch& launch);
void end_launch(Launch& launch);
void begin_block();
void next_epoch();                      // every live thread of the block has arrived at __syncthreads
void synchronise(u32 warp, u32 group);  // the lanes of `group` have arrived at __syncwarp
void fence();

// The current thread is about to touch memory, at `caller`.
void access(const void* p, size_t bytes, Access access, const void* caller);

}  // namespace emulation::checker
