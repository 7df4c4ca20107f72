// The checker: the compiler's thread-sanitizer instrumentation calls these hooks before every access of a kernel.
// It runs on one host thread, so that what it counts is the same every time.
//
// Races: every byte of shared memory, and every element of an array that the kernel may write, remembers its last
// writers and readers. Two accesses of different threads are ordered by __syncthreads, inside a warp also by
// __syncwarp, between blocks by fences on both sides. Shuffles, votes and atomics order nothing.
#include "checker.hpp"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

namespace emulation::checker {

namespace {

// Accesses of one kind to one place that are not ordered among themselves (the last one, mostly).
struct Accesses {
  u32 block;  // number over all launches; 0 for none
  u32 epoch;  // barriers passed by the block
  u32 clock;  // last __syncwarp passed, of the warp's count
  u32 fence;  // fences so far, of all blocks
  u32 pc;
  u32 lanes;
  unsigned char warp;
  bool several_warps, several_blocks;
  bool atomic;  // all of them
};

struct Record {
  Accesses write, read;
};

u32 first_block, this_block_number, epoch, fences_so_far;
u32 last_buffer;
u32* last_fence;  // by block of the launch
size_t last_fence_bytes;
Record* shared_records;
u32 sync_count[MAX_WARPS];
u32 lane_clock[MAX_WARPS][WARP_SIZE];
u32 known[MAX_WARPS][WARP_SIZE][WARP_SIZE];  // [warp][i][j]: the last __syncwarp of lane j that lane i knows of

void* map(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no memory is left to check with");
  return p;
}

u32 offset_of(const void* caller) { return static_cast<const char*>(caller) - layout.base - 1; }

size_t record_count(const Buffer& buffer) { return buffer.bytes / buffer.element_bytes; }

bool is_read(Access access) { return access == Access::READ || access == Access::VOLATILE_READ; }

bool ordered(const Block& block, const Accesses& before) {
  if (before.block < first_block) return true;
  if (before.several_blocks) return false;
  if (before.block != this_block_number) {
    return last_fence[before.block - first_block] > before.fence &&
           last_fence[this_block_number - first_block] > before.fence;
  }
  if (before.epoch < epoch) return true;
  const Thread& me = *block.current;
  if (before.several_warps || before.warp != me.warp) return false;
  for (u32 lanes = before.lanes & ~(1u << me.lane); lanes; lanes &= lanes - 1) {
    if (known[me.warp][me.lane][__builtin_ctz(lanes)] <= before.clock) return false;
  }
  return true;
}

[[noreturn]] void fail_race(const Block& block, const Accesses& before, bool wrote, Access now, u32 pc,
                            const char* what) {
  char other[64] = "another thread of the block";
  if (before.several_blocks || before.block != this_block_number) {
    snprintf(other, sizeof other, "another block");
  } else if (!before.several_warps && !(before.lanes & (before.lanes - 1))) {
    snprintf(other, sizeof other, "thread %u", before.warp * WARP_SIZE + __builtin_ctz(before.lanes));
  }
  const char* const verb = now == Access::ATOMIC ? "updates" : is_read(now) ? "reads" : "writes";
  const char* const verb_before = !wrote ? "read" : before.atomic ? "updated" : "wrote";
  fail("race: thread %u %s %s at @{%x}, %s %s it at @{%x}, and nothing orders the two",
       block.current->warp * WARP_SIZE + block.current->lane, verb, what, pc, other, verb_before, before.pc);
}

void remember(const Block& block, Accesses& last, bool atomic, u32 pc) {
  const Thread& me = *block.current;
  const u32 clock = lane_clock[me.warp][me.lane];
  if (ordered(block, last)) {
    last = {this_block_number, epoch, clock, fences_so_far, pc, 1u << me.lane, me.warp, false, false, atomic};
    return;
  }
  last.several_blocks |= last.block != this_block_number;
  last.several_warps |= last.warp != me.warp;
  last.lanes |= 1u << me.lane;
  if (clock > last.clock) last.clock = clock;
  last.fence = fences_so_far;
  last.atomic &= atomic;
}

void touch(const Block& block, Record& record, Access access, bool atomic, u32 pc, const char* what) {
  if (!ordered(block, record.write) && !(atomic && record.write.atomic)) {
    fail_race(block, record.write, true, access, pc, what);
  }
  if (!is_read(access) && !ordered(block, record.read) && !(atomic && record.read.atomic)) {
    fail_race(block, record.read, false, access, pc, what);
  }
  remember(block, is_read(access) ? record.read : record.write, atomic, pc);
}

void touch_shared(const Block& block, size_t offset, size_t bytes, Access access, u32 pc) {
  const u32 thread = block.current->warp * WARP_SIZE + block.current->lane;
  if (layout.has_dynamic) {
    const size_t dynamic = layout.dynamic_offset - layout.segment_offset;
    const size_t limit = dynamic + block.launch->shared_bytes;
    if (offset + bytes > limit && offset < dynamic + MAX_DYNAMIC_SHARED) {
      fail("out of bounds: thread %u touches byte %zu of %u bytes of dynamic shared memory at @{%x}", thread,
           offset + bytes - 1 - dynamic, block.launch->shared_bytes, pc);
    }
  }
  for (size_t byte = offset; byte < offset + bytes; ++byte) {
    Record& record = shared_records[byte];
    // Another block's shared memory was not the same memory.
    if (record.write.block != this_block_number) record.write = {};
    if (record.read.block != this_block_number) record.read = {};
    if (access != Access::WRITE && access != Access::VOLATILE_WRITE && !record.write.block) {
      fail("uninitialised: thread %u reads shared memory at @{%x} that no thread of its block has written", thread, pc);
    }
    touch(block, record, access, access == Access::ATOMIC, pc, "shared memory");
  }
}

Buffer* find_buffer(const Launch& launch, const char* p) {
  const auto holds = [p](const Buffer& buffer) { return size_t(p - buffer.begin) < buffer.bytes; };
  if (last_buffer < launch.buffer_count && holds(launch.buffers[last_buffer])) return &launch.buffers[last_buffer];
  for (u32 i = 0; i < launch.buffer_count; ++i) {
    if (holds(launch.buffers[i])) {
      last_buffer = i;
      return &launch.buffers[i];
    }
  }
  return nullptr;
}

[[noreturn]] void fail_bounds(const Block& block, const char* p, size_t bytes, Access access, u32 pc) {
  const Launch& launch = *block.launch;
  const Buffer* nearest = nullptr;
  size_t least = ~size_t(0);
  for (u32 i = 0; i < launch.buffer_count; ++i) {
    const Buffer& buffer = launch.buffers[i];
    const size_t distance = p < buffer.begin ? buffer.begin - p : p - buffer.begin - buffer.bytes;
    if (distance < least) {
      least = distance;
      nearest = &buffer;
    }
  }
  char where[96] = "outside every argument";
  if (nearest && least < size_t(1) << 32) {
    snprintf(where, sizeof where, "%lld bytes from the start of args[%u], which has %zu",
             static_cast<long long>(p - nearest->begin), nearest->argument, nearest->bytes);
  }
  fail("out of bounds: thread %u %s %zu bytes at @{%x}, %s", block.current->warp * WARP_SIZE + block.current->lane,
       is_read(access) ? "reads" : "writes", bytes, pc, where);
}

}  // namespace

void begin_launch(Launch& launch) {
  const u64 blocks = u64(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  if (!shared_records) shared_records = static_cast<Record*>(map(layout.segment_bytes * sizeof(Record)));
  first_block = this_block_number + 1;
  last_fence_bytes = blocks * sizeof *last_fence;
  last_fence = static_cast<u32*>(map(last_fence_bytes));
  for (u32 i = 0; i < launch.buffer_count; ++i) {
    Buffer& buffer = launch.buffers[i];
    if (buffer.element_bytes) buffer.records = map(record_count(buffer) * sizeof(Record));
  }
  fences_so_far = 0;
}

void end_launch(Launch& launch) {
  munmap(last_fence, last_fence_bytes);
  for (u32 i = 0; i < launch.buffer_count; ++i) {
    Buffer& buffer = launch.buffers[i];
    if (buffer.element_bytes) munmap(buffer.records, record_count(buffer) * sizeof(Record));
  }
}

void begin_block() {
  ++this_block_number;
  epoch = 0;
}

void next_epoch() { ++epoch; }

void synchronise(u32 w, u32 group) {
  const u32 now = ++sync_count[w];
  u32 merged[WARP_SIZE] = {};
  for (u32 lanes = group; lanes; lanes &= lanes - 1) {
    const u32* const of_lane = known[w][__builtin_ctz(lanes)];
    for (int j = 0; j < WARP_SIZE; ++j) merged[j] = of_lane[j] > merged[j] ? of_lane[j] : merged[j];
  }
  for (u32 lanes = group; lanes; lanes &= lanes - 1) merged[__builtin_ctz(lanes)] = now;
  for (u32 lanes = group; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    memcpy(known[w][lane], merged, sizeof merged);
    lane_clock[w][lane] = now;
  }
}

void fence() { last_fence[this_block_number - first_block] = ++fences_so_far; }

void access(const void* p, size_t bytes, Access access, const void* caller) {
  Block& block = this_block();
  if ((reinterpret_cast<size_t>(p) & ~(ARENA_BYTES - 1)) == reinterpret_cast<size_t>(&block)) return;  // its own stack
  const char* const at = static_cast<const char*>(p);
  const u32 pc = offset_of(caller);
  const size_t shared_offset = at - shared_segment();
  if (shared_offset < layout.segment_bytes) return touch_shared(block, shared_offset, bytes, access, pc);
  if (at >= layout.image_begin && at < layout.image_end) return;  // tables of the source, constants
  Buffer* const buffer = find_buffer(*block.launch, at);
  if (!buffer || at + bytes > buffer->begin + buffer->bytes) fail_bounds(block, at, bytes, access, pc);

  const size_t offset = at - buffer->begin;
  char what[16];
  snprintf(what, sizeof what, "args[%u]", buffer->argument);
  if (!buffer->element_bytes) {
    if (is_read(access)) return;
    fail("thread %u writes %s at @{%x}, which it takes as const", block.current->warp * WARP_SIZE + block.current->lane,
         what, pc);
  }
  Record* const records = static_cast<Record*>(buffer->records);
  const size_t last = (offset + bytes - 1) / buffer->element_bytes;
  for (size_t i = offset / buffer->element_bytes; i <= last; ++i) {
    touch(block, records[i], access, access >= Access::VOLATILE_READ, pc, what);
  }
}

}  // namespace emulation::checker

namespace emulation {

using checker::Access;
#define EMULATION_CALLER __builtin_return_address(0)

void load_whole(void* to, const void* from, size_t bytes) {
  checker::access(from, bytes, Access::READ, EMULATION_CALLER);
  memcpy(to, from, bytes);
}

void store_whole(void* to, const void* from, size_t bytes) {
  checker::access(to, bytes, Access::WRITE, EMULATION_CALLER);
  memcpy(to, from, bytes);
}

}  // namespace emulation

#define HOOK(NAME, BYTES, ACCESS)                                                     \
  extern "C" void __tsan_##NAME(void* p) {                                            \
    emulation::checker::access(p, BYTES, emulation::Access::ACCESS, EMULATION_CALLER); \
  }
#define HOOKS(BYTES)                                     \
  HOOK(read##BYTES, BYTES, READ)                         \
  HOOK(write##BYTES, BYTES, WRITE)                       \
  HOOK(unaligned_read##BYTES, BYTES, READ)               \
  HOOK(unaligned_write##BYTES, BYTES, WRITE)             \
  HOOK(volatile_read##BYTES, BYTES, VOLATILE_READ)       \
  HOOK(volatile_write##BYTES, BYTES, VOLATILE_WRITE)     \
  HOOK(unaligned_volatile_read##BYTES, BYTES, VOLATILE_READ) \
  HOOK(unaligned_volatile_write##BYTES, BYTES, VOLATILE_WRITE)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void* p, size_t bytes) {
  emulation::checker::access(p, bytes, emulation::Access::READ, EMULATION_CALLER);
}
extern "C" void __tsan_write_range(void* p, size_t bytes) {
  emulation::checker::access(p, bytes, emulation::Access::WRITE, EMULATION_CALLER);
}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  emulation::checker::access(from, bytes, emulation::Access::READ, EMULATION_CALLER);
  emulation::checker::access(to, bytes, emulation::Access::WRITE, EMULATION_CALLER);
  return memcpy(to, from, bytes);
}
extern "C" void* __tsan_memset(void* to, int value, size_t bytes) {
  emulation::checker::access(to, bytes, emulation::Access::WRITE, EMULATION_CALLER);
  return memset(to, value, bytes);
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
