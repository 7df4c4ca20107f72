// The scheduler of the emulated device: CUDA threads are fibers of one host thread, and a fiber that has to wait picks
// the next one itself. A thread gets a stack when it is first picked, and a stack whose thread has ended runs the next
// unstarted one, so a kernel that never waits is a plain loop.
#include "cuda.hpp"
#include "checker.hpp"

#include <link.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// <stdlib.h> has an abs of its own.
extern "C" void* calloc(size_t, size_t) noexcept;
extern "C" void free(void*) noexcept;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Saves the callee-saved registers on the stack, stores the stack pointer to *save and continues on `load`. It ends in
// a return because the processor predicts that: the other fiber mostly waits at the same place.
extern "C" void emulation_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
.text
.globl emulation_switch
.hidden emulation_switch
.type emulation_switch, @function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch, .-emulation_switch
)");
constexpr int SAVED_WORDS = 8;  // six registers, the address to return to, and one that keeps the ABI's alignment
constexpr int RETURN_WORD = 6;
#else
asm(R"(
.text
.globl emulation_switch
.hidden emulation_switch
.type emulation_switch, %function
emulation_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emulation_switch, .-emulation_switch
)");
constexpr int SAVED_WORDS = 20;
constexpr int RETURN_WORD = 11;  // x30
#endif

namespace emulation {

Layout layout;

namespace {

// Yields of a block in which no collective is called and no thread ends. Where other host threads run blocks that this
// one may wait for, several seconds' worth: a busy machine may have taken their core away.
constexpr u64 SPIN_LIMIT = u64(1) << (CHECKING ? 20 : 26);
constexpr size_t STACKS_OFFSET = size_t(1) << 20;
static_assert(sizeof(Block) <= STACKS_OFFSET);

char* stack_low(Block& block, u32 stack) {
  return reinterpret_cast<char*>(&block) + STACKS_OFFSET + stack * (STACK_BYTES + layout.page_bytes) +
         layout.page_bytes;
}

// Stacks that start at the same offset of a page would fight for the same few lines of the cache.
char* stack_top(Block& block, u32 stack) { return stack_low(block, stack) + STACK_BYTES - stack * 320 % 4096; }

unsigned lowest(u32 set) { return __builtin_ctz(set); }

u64 next_random(Block& block) {
  block.random ^= block.random << 13;
  block.random ^= block.random >> 7;
  block.random ^= block.random << 17;
  return block.random;
}

unsigned any_of(Block& block, u32 set) {
  for (u64 skip = next_random(block) % __builtin_popcount(set); skip > 0; --skip) set &= set - 1;
  return lowest(set);
}

// Shared memory: the library's thread-local segment, less what the linker put there for others.

thread_local char anchor;

int find_segment(dl_phdr_info* info, size_t, void* found) {
  const auto inside = reinterpret_cast<size_t>(&find_segment);
  bool ours = false;
  size_t bytes = 0, begin = 0, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    const size_t at = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_TLS) bytes = header.p_memsz;
    if (header.p_type != PT_LOAD) continue;
    ours |= inside - at < header.p_memsz;
    if (!begin || at < begin) begin = at;
    if (at + header.p_memsz > end) end = at + header.p_memsz;
  }
  if (!ours) return 0;
  layout.base = reinterpret_cast<const char*>(info->dlpi_addr);
  layout.image_begin = reinterpret_cast<const char*>(begin);
  layout.image_end = reinterpret_cast<const char*>(end);
  layout.segment_offset = static_cast<char*>(info->dlpi_tls_data) - static_cast<char*>(found);
  layout.segment_bytes = bytes;
  return 1;
}

void poison(char* begin, char* end) {
  for (; end - begin >= 4; begin += 4) memcpy(begin, &POISON, 4);
}

// Shared memory holds on a GPU what other blocks left there; no kernel may rely on its contents.
void poison_shared(const Launch& launch) {
  char* const begin = shared_segment();
  char* const end = begin + layout.segment_bytes;
  if (!layout.has_dynamic) return poison(begin, end);
  char* const dynamic = &anchor + layout.dynamic_offset;
  poison(begin, dynamic);
  poison(dynamic, dynamic + launch.shared_bytes);
  poison(dynamic + MAX_DYNAMIC_SHARED, end);
}

const char* name_of(Op op) {
  switch (op) {
    case Op::SYNC:
      return "__syncwarp";
    case Op::SHUFFLE:
      return "a shuffle";
    case Op::BALLOT:
      return "__ballot_sync";
    case Op::ANY:
      return "__any_sync";
    case Op::ALL:
      return "__all_sync";
    case Op::MATCH:
      return "__match_any_sync";
    default:
      return "a warp reduction";
  }
}

const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Where the threads of a block that cannot go on are waiting, by place, the first few of them.
[[noreturn]] void fail_deadlock(Block& block) {
  struct Group {
    Site site;
    u32 mask;
    int op;  // -1: __syncthreads
    u32 count;
  } groups[4];
  int used = 0;
  for (u32 w = 0; w < MAX_WARPS; ++w) {
    const Warp& warp = block.warps[w];
    for (u32 lanes = warp.alive & (warp.waiting | warp.at_barrier); lanes; lanes &= lanes - 1) {
      const unsigned lane = lowest(lanes);
      const Lane& l = warp.lanes[lane];
      const bool collective = warp.waiting >> lane & 1;
      const Group here{collective ? l.site : block.barrier_site, collective ? l.mask : 0, collective ? int(l.op) : -1,
                       1};
      int g = 0;
      while (g < used && !(groups[g].site == here.site && groups[g].mask == here.mask && groups[g].op == here.op)) ++g;
      if (g < used) {
        ++groups[g].count;
      } else if (used < 4) {
        groups[used++] = here;
      }
    }
  }
  char text[1024];
  int length = 0;
  for (int g = 0; g < used; ++g) {
    const Group& group = groups[g];
    char mask[32] = "";
    if (group.op >= 0) snprintf(mask, sizeof mask, " with mask 0x%08x", group.mask);
    length += snprintf(text + length, sizeof text - length, "%s%u thread%s wait%s in %s%s at %s:%d", g ? ", " : "",
                       group.count, group.count == 1 ? "" : "s", group.count == 1 ? "s" : "",
                       group.op < 0 ? "__syncthreads" : name_of(Op(group.op)), mask, base_name(group.site.file),
                       group.site.line);
  }
  fail("deadlock: %s", text);
}

// A ready thread, which is so no longer: it is to run.
Thread* take(Block& block, u32 w, unsigned lane) {
  Warp& warp = block.warps[w];
  warp.ready &= ~(1u << lane);
  if (!warp.ready) block.ready_warps &= ~(1u << w);
  return &block.threads[w * WARP_SIZE + lane];
}

// The next thread to run, same warp first. The caller is not ready.
Thread* pick(Block& block) {
  if (!block.ready_warps) fail_deadlock(block);
  u32 w = block.current->warp;
  if (block.random) {
    w = any_of(block, block.ready_warps);
  } else if (!(block.ready_warps >> w & 1)) {
    w = lowest(block.ready_warps);
  }
  const u32 ready = block.warps[w].ready;
  return take(block, w, block.random ? any_of(block, ready) : lowest(ready));
}

void fiber_main();

// The first fault of a launch counts; the other host threads take no further block.
void keep_fault(Block& block, const char* text, u32 kind = FAULT) {
  Launch& launch = *block.launch;
  u32 none = 0;
  if (__atomic_compare_exchange_n(&launch.failed, &none, kind, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    const uint3 b = block.block_index;
    snprintf(launch.message, sizeof launch.message, "block (%u, %u, %u): %s", b.x, b.y, b.z, text);
  }
  __atomic_store_n(&launch.next, u64(1) << 63, __ATOMIC_RELAXED);
}

constexpr char NO_STACK[] = "no memory is left for the stacks of its threads";

// Null where no memory is left.
void* new_stack(Block& block) {
  if (!block.stacks_free) {
    const u32 stack = block.stacks_made;
    if (mprotect(stack_low(block, stack), STACK_BYTES, PROT_READ | PROT_WRITE)) return nullptr;
    ++block.stacks_made;
    block.free_stacks[block.stacks_free++] = stack;
  }
  const u32 stack = block.free_stacks[--block.stacks_free];
  void** words = reinterpret_cast<void**>(stack_top(block, stack)) - SAVED_WORDS;
  memset(words, 0, SAVED_WORDS * sizeof(void*));
  words[RETURN_WORD] = reinterpret_cast<void*>(&fiber_main);
  return words;
}

// Leave this stack for that of `next`; comes back when somebody picks this thread.
__attribute__((noinline)) void switch_to(Block& block, Thread* next) {
  Thread* const me = block.current;
  if (next == me) return;
  void* const stack = next->stack_pointer ? next->stack_pointer : new_stack(block);
  if (!stack) {
    keep_fault(block, NO_STACK, NO_MEMORY);
    fail("%s", NO_STACK);
  }
  block.current = next;
  emulation_switch(&me->stack_pointer, stack);
}

u64 result_of(const Warp& warp, u32 group, unsigned lane) {
  const Lane& mine = warp.lanes[lane];
  if (mine.op == Op::SHUFFLE) return group >> mine.source & 1 ? warp.lanes[mine.source].value : POISON_64;
  u64 result = mine.value;
  u32 ballot = 0;
  for (u32 lanes = group; lanes; lanes &= lanes - 1) {
    const unsigned other = lowest(lanes);
    const u64 value = warp.lanes[other].value;
    switch (mine.op) {
      case Op::BALLOT:
      case Op::ANY:
      case Op::ALL:
        ballot |= u32(value) << other;
        break;
      case Op::MATCH:
        ballot |= u32(value == mine.value) << other;
        break;
      case Op::ADD:
        result = other == lane ? result : u32(result + value);
        break;
      case Op::MIN:
        result = u32(min(int(result), int(value)));
        break;
      case Op::MAX:
        result = u32(max(int(result), int(value)));
        break;
      case Op::MIN_UNSIGNED:
        result = min(u32(result), u32(value));
        break;
      case Op::MAX_UNSIGNED:
        result = max(u32(result), u32(value));
        break;
      case Op::AND:
        result &= value;
        break;
      case Op::OR:
        result |= value;
        break;
      case Op::XOR:
        result = other == lane ? result : result ^ value;
        break;
      default:
        break;
    }
  }
  switch (mine.op) {
    case Op::BALLOT:
    case Op::MATCH:
      return ballot;
    case Op::ANY:
      return ballot != 0;
    case Op::ALL:
      return ballot == group;
    default:
      return result;
  }
}

// Every live lane that `leader` waits for has come: give each its result. They become ready.
void complete(Block& block, u32 w, unsigned leader) {
  Warp& warp = block.warps[w];
  const Lane& first = warp.lanes[leader];
  const u32 group = first.mask & warp.alive;
  for (u32 lanes = group; lanes; lanes &= lanes - 1) {
    const Lane& other = warp.lanes[lowest(lanes)];
    if (other.mask != first.mask) {
      fail("lanes of one warp disagree about the mask: 0x%08x in %s at %s:%d, 0x%08x in %s at %s:%d", first.mask,
           name_of(first.op), base_name(first.site.file), first.site.line, other.mask, name_of(other.op),
           base_name(other.site.file), other.site.line);
    }
    if (other.op != first.op || !(other.site == first.site)) {
      fail("divergent warp: lane %u is in %s at %s:%d, lane %u in %s at %s:%d", leader, name_of(first.op),
           base_name(first.site.file), first.site.line, lowest(lanes), name_of(other.op), base_name(other.site.file),
           other.site.line);
    }
  }
  const bool uniform = first.op != Op::SHUFFLE && first.op != Op::MATCH;
  const u64 common = uniform && first.op != Op::SYNC ? result_of(warp, group, leader) : 0;
  for (u32 lanes = group; lanes; lanes &= lanes - 1) {
    const unsigned lane = lowest(lanes);
    warp.lanes[lane].result = uniform ? common : result_of(warp, group, lane);
  }
  if (CHECKING && first.op == Op::SYNC) checker::synchronise(w, group);
  warp.waiting &= ~group;
  make_ready(block, w, group);
}

void release_barrier(Block& block) {
  block.released = block.arrived;
  block.released_votes = block.votes;
  block.arrived = block.votes = 0;
  if (CHECKING) checker::next_epoch();
  for (u32 w = 0; w < MAX_WARPS; ++w) {
    make_ready(block, w, block.warps[w].at_barrier);
    block.warps[w].at_barrier = 0;
  }
}

// The block that is taken as number `index` of all, in the order of a seed: every block once, for its stride has no
// divisor in common with their number.
u64 in_order(u64 index, u64 blocks, u64 seed) {
  u64 stride = seed * 0x9e3779b97f4a7c15ull % blocks;
  for (u64 common = 0; common != 1; ++stride) {
    common = stride + 1;
    for (u64 rest = blocks; rest;) {
      const u64 next = common % rest;
      common = rest, rest = next;
    }
  }
  return (index * stride + seed % blocks) % blocks;
}

// Takes the next block of the grid, or reports that none is left.
bool next_block(Block& block) {
  Launch& launch = *block.launch;
  u64 index = __atomic_fetch_add(&launch.next, 1, __ATOMIC_RELAXED);
  const u64 per_layer = u64(launch.grid[0]) * launch.grid[1];
  if (index >= per_layer * launch.grid[2]) return false;
  if (launch.seed) index = in_order(index, per_layer * launch.grid[2], launch.seed);
  block.linear_index = index;
  block.block_index = {u32(index % launch.grid[0]), u32(index / launch.grid[0] % launch.grid[1]),
                       u32(index / per_layer)};
  block.random = launch.seed ? (launch.seed + index) * 0x9e3779b97f4a7c15ull | 1 : 0;
  const u32 threads = launch.block[0] * launch.block[1] * launch.block[2];
  const u32 warps = (threads + WARP_SIZE - 1) / WARP_SIZE;
  for (u32 w = 0; w < warps; ++w) {
    const u32 lanes = threads - w * WARP_SIZE;
    Warp& warp = block.warps[w];
    warp.alive = warp.ready = lanes >= WARP_SIZE ? ~0u : (1u << lanes) - 1;
    warp.waiting = warp.at_barrier = 0;
  }
  block.ready_warps = warps == MAX_WARPS ? ~0u : (1u << warps) - 1;
  block.alive = threads;
  block.arrived = block.votes = 0;
  block.idle_yields = 0;
  block.current = &block.threads[0];
  poison_shared(launch);
  if (CHECKING) checker::begin_block();
  return true;
}

// The current thread has ended. Returns the thread to run next, or null where the grid is done.
Thread* finish(Block& block) {
  const u32 w = block.current->warp;
  Warp& warp = block.warps[w];
  warp.alive &= ~(1u << block.current->lane);
  block.current->stack_pointer = nullptr;
  block.idle_yields = 0;
  if (!--block.alive) return next_block(block) ? pick(block) : nullptr;
  for (u32 lanes = warp.waiting; lanes;) {  // some may have waited for this lane only
    const unsigned lane = lowest(lanes);
    const u32 mask = warp.lanes[lane].mask;
    lanes &= ~mask;
    if (!(mask & warp.alive & ~warp.waiting)) complete(block, w, lane);
  }
  if (block.arrived == block.alive) release_barrier(block);
  return pick(block);
}

void fiber_main() {
  Block& block = this_block();
  const u32 stack =
      (reinterpret_cast<char*>(__builtin_frame_address(0)) - reinterpret_cast<char*>(&block) - STACKS_OFFSET) /
      (STACK_BYTES + layout.page_bytes);
  for (;;) {
    block.launch->call(block.launch->args);
    Thread* const next = finish(block);
    if (next && !next->stack_pointer) {
      block.current = next;
      continue;
    }
    // Nobody can take this stack before we have left it: the block has one host thread.
    block.free_stacks[block.stacks_free++] = stack;
    void* nowhere;
    if (next) block.current = next;
    emulation_switch(&nowhere, next ? next->stack_pointer : block.host_stack_pointer);
  }
}

}  // namespace

char* shared_segment() { return &anchor + layout.segment_offset; }

void make_ready(Block& block, u32 warp, u32 lanes) {
  block.warps[warp].ready |= lanes;
  if (lanes) block.ready_warps |= 1u << warp;
}

void suspend(Block& block) { switch_to(block, pick(block)); }

[[noreturn]] void fail(const char* format, ...) {
  Block& block = this_block();
  char text[1920];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  keep_fault(block, text);
  void* nowhere;
  emulation_switch(&nowhere, block.host_stack_pointer);
  __builtin_unreachable();
}

u64 collective(Op op, u32 mask, u64 value, int source, Site here) {
  Block& block = this_block();
  const u32 w = block.current->warp, lane = block.current->lane;
  Warp& warp = block.warps[w];
  if (!(mask >> lane & 1)) {
    fail("lane %u of warp %u is not in the mask 0x%08x of %s at %s:%d", lane, w, mask, name_of(op),
         base_name(here.file), here.line);
  }
  Lane& mine = warp.lanes[lane];
  mine.value = value;
  mine.site = here;
  mine.mask = mask;
  mine.source = source;
  mine.op = op;
  warp.waiting |= 1u << lane;
  block.idle_yields = 0;
  if (!(mask & warp.alive & ~warp.waiting)) {
    complete(block, w, lane);
    if (!block.random) {  // go on with this lane; with a seed, any of them may be the next
      take(block, w, lane);
      return mine.result;
    }
  }
  suspend(block);
  return mine.result;
}

u32 barrier(Vote vote, bool predicate, Site here) {
  Block& block = this_block();
  const Thread& me = *block.current;
  if (!block.arrived) {
    block.barrier_site = here;
  } else if (!(block.barrier_site == here)) {
    fail("divergent barrier: %u threads are in __syncthreads at %s:%d, thread %u at %s:%d", block.arrived,
         base_name(block.barrier_site.file), block.barrier_site.line, me.warp * WARP_SIZE + me.lane,
         base_name(here.file), here.line);
  }
  const u32 alive = block.alive;
  block.votes += predicate;
  block.idle_yields = 0;
  block.warps[me.warp].at_barrier |= 1u << me.lane;
  if (++block.arrived == alive) release_barrier(block);
  suspend(block);
  switch (vote) {
    case Vote::COUNT:
      return block.released_votes;
    case Vote::AND:
      return block.released_votes == block.released;
    default:
      return block.released_votes != 0;
  }
}

// For loops that wait for another thread: every other ready thread of the block runs first.
void yield() {
  Block& block = this_block();
  if (++block.idle_yields > SPIN_LIMIT) fail("spin-wait without end: only __nanosleep is still called");
  const u32 w = block.current->warp, lane = block.current->lane;
  Warp& mine = block.warps[w];
  const u32 later_lanes = mine.ready & ~((2u << lane) - 1);
  make_ready(block, w, 1u << lane);
  if (later_lanes) {
    switch_to(block, take(block, w, lowest(later_lanes)));
    return;
  }
  const u32 later_warps = block.ready_warps & ~((2u << w) - 1);
  const u32 next = lowest(later_warps ? later_warps : block.ready_warps);
  Thread* const thread = take(block, next, lowest(block.warps[next].ready));
  if (thread == block.current) sched_yield();  // what it waits for comes from a block on another host thread
  switch_to(block, thread);
}

void launch_after(void (*call)(void* const* args), const void* const* args, const u32* bytes, u32 count, dim3 grid,
                  dim3 block) {
  const u64 threads = u64(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || threads > MAX_THREADS) {
    fail("a thread launches %ux%ux%u blocks of %ux%ux%u threads", grid.x, grid.y, grid.z, block.x, block.y, block.z);
  }
  size_t room = sizeof(Launch) + count * sizeof(void*);  // the launch, where its arguments are, and these
  for (u32 i = 0; i < count; ++i) room += (bytes[i] + 15) / 16 * 16;
  char* const memory = static_cast<char*>(calloc(1, room));
  if (!memory) fail("no memory is left for what a thread launches");
  Launch& parent = *this_block().launch;
  Launch& made = *reinterpret_cast<Launch*>(memory);
  void** const places = reinterpret_cast<void**>(memory + sizeof(Launch));
  char* next = memory + room;
  for (u32 i = 0; i < count; ++i) {
    next -= (bytes[i] + 15) / 16 * 16;
    places[i] = memcpy(next, args[i], bytes[i]);
  }
  made.call = call;
  made.args = places;
  made.buffers = parent.buffers;
  made.buffer_count = parent.buffer_count;
  made.seed = parent.seed;
  const dim3 sizes[] = {grid, block};
  memcpy(made.grid, sizes, sizeof sizes);
  made.before = __atomic_load_n(&parent.launched, __ATOMIC_RELAXED);
  while (
      !__atomic_compare_exchange_n(&parent.launched, &made.before, &made, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

void fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (CHECKING) checker::fence();
}

namespace {

template <typename Bits, typename T, typename Change>
T atomic(T* p, const void* caller, Change change) {
  if (CHECKING) checker::access(p, sizeof(T), checker::Access::ATOMIC, caller);
  Bits* const bits = reinterpret_cast<Bits*>(p);
  Bits before = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    const T old = from_bits<T>(before);
    if (__atomic_compare_exchange_n(bits, &before, Bits(to_bits(change(old))), true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

}  // namespace

}  // namespace emulation

#define CALLER __builtin_return_address(0)
#define ATOMIC(NAME, T, BITS, CHANGED)                                                                  \
  T NAME(T* p, T value) {                                                                               \
    return emulation::atomic<BITS>(p, CALLER, [=](T old) -> T { return CHANGED; }); \
  }
#define ATOMICS(T)                                                                                                \
  ATOMIC(atomicAdd, T, T, old + value)                                                                            \
  ATOMIC(atomicMin, T, T, min(old, value))                                                                        \
  ATOMIC(atomicMax, T, T, max(old, value))                                                                        \
  ATOMIC(atomicExch, T, T, ((void)old, value))                                                                    \
  ATOMIC(atomicAnd, T, T, old & value)                                                                            \
  ATOMIC(atomicOr, T, T, old | value)                                                                             \
  ATOMIC(atomicXor, T, T, old ^ value)                                                                            \
  T atomicCAS(T* p, T expected, T value) {                                                                        \
    return emulation::atomic<T>(p, CALLER, [=](T old) { return old == expected ? value : old; }); \
  }
ATOMICS(int)
ATOMICS(unsigned)
ATOMICS(unsigned long long)
ATOMIC(atomicSub, int, int, old - value)
ATOMIC(atomicSub, unsigned, unsigned, old - value)
ATOMIC(atomicMin, long long, long long, min(old, value))
ATOMIC(atomicMax, long long, long long, max(old, value))
ATOMIC(atomicAdd, float, unsigned, old + value)
ATOMIC(atomicAdd, double, unsigned long long, old + value)
ATOMIC(atomicExch, float, unsigned, ((void)old, value))

namespace emulation {

// Once per library and process, before anything runs. dynamic: this thread's dynamic_shared, or null.
EXPORT void spmvbench_prepare(char* dynamic) {
  char* const here = &anchor;
  layout.page_bytes = sysconf(_SC_PAGESIZE);
  dl_iterate_phdr(&find_segment, here);
  layout.has_dynamic = dynamic != nullptr;
  layout.dynamic_offset = dynamic - here;
}

// Address space for the blocks of one host thread; null where there is none. Memory is taken as it is touched.
EXPORT void* spmvbench_arena_create() {
  void* const wide = mmap(nullptr, 2 * ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(wide);
  char* const arena = reinterpret_cast<char*>((reinterpret_cast<size_t>(begin) + ARENA_BYTES - 1) & ~(ARENA_BYTES - 1));
  if (arena > begin) munmap(begin, arena - begin);
  munmap(arena + ARENA_BYTES, begin + ARENA_BYTES - arena);  // never empty
  if (mprotect(arena, STACKS_OFFSET, PROT_READ | PROT_WRITE)) {
    munmap(arena, ARENA_BYTES);
    return nullptr;
  }
  return arena;
}

EXPORT void spmvbench_arena_destroy(void* arena) { munmap(arena, ARENA_BYTES); }

// One of the launches that the threads of another made, for the caller to run and to free; null where none is left.
EXPORT Launch* spmvbench_take_launched(Launch* launch) {
  Launch* const taken = launch->launched;
  if (taken) launch->launched = taken->before;
  return taken;
}

EXPORT void spmvbench_free_launched(Launch* launch) { free(launch); }

// Runs blocks of a launch until none is left. Several host threads may do so at once, each with an arena of its own.
EXPORT void spmvbench_run(void* arena, Launch* launch) {
  Block& block = *static_cast<Block*>(arena);
  block.launch = launch;
  block.grid_dim = dim3(launch->grid[0], launch->grid[1], launch->grid[2]);
  block.block_dim = dim3(launch->block[0], launch->block[1], launch->block[2]);
  u32 n = 0;
  for (u32 z = 0; z < launch->block[2]; ++z) {
    for (u32 y = 0; y < launch->block[1]; ++y) {
      for (u32 x = 0; x < launch->block[0]; ++x, ++n) {
        block.threads[n] = {
            nullptr, {x, y, z}, static_cast<unsigned char>(n / WARP_SIZE), static_cast<unsigned char>(n % WARP_SIZE)};
      }
    }
  }
  for (u32 w = (n + WARP_SIZE - 1) / WARP_SIZE; w < MAX_WARPS; ++w) {
    block.warps[w].alive = block.warps[w].at_barrier = 0;
  }
  // A fault leaves fibers where they were: their stacks are free again.
  block.stacks_free = 0;
  for (u32 stack = block.stacks_made; stack-- > 0;) block.free_stacks[block.stacks_free++] = stack;
  if (CHECKING) checker::begin_launch(*launch);
  if (next_block(block)) {
    block.current = pick(block);
    if (void* const stack = new_stack(block)) {
      emulation_switch(&block.host_stack_pointer, stack);
    } else {
      keep_fault(block, NO_STACK, NO_MEMORY);
    }
  }
  if (CHECKING) checker::end_launch(*launch);
}

}  // namespace emulation
