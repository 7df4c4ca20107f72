// What kernels and scheduler share: the state of one block, found from the stack pointer, and the services of the
// scheduler. Nothing here needs a system header: units are compiled by the hundred, so they must stay cheap.
#pragma once

using size_t = decltype(sizeof 0);

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulation {

using u32 = unsigned;
using u64 = unsigned long long;

constexpr int WARP_SIZE = 32;
constexpr int MAX_THREADS = 1024;
constexpr int MAX_WARPS = MAX_THREADS / WARP_SIZE;
constexpr size_t MAX_DYNAMIC_SHARED = 227 * 1024;  // what a block of an H100 can have
constexpr size_t ARENA_BYTES = size_t(256) << 20;  // and its alignment
constexpr size_t STACK_BYTES = size_t(64) << 10;

// What is undefined on a GPU (unwritten shared memory, a shuffle from an inactive lane) reads as this: a NaN as float
// and as double, a wild index as integer.
constexpr u32 POISON = 0xfff7deadu;
constexpr u64 POISON_64 = u64(POISON) << 32 | POISON;

#ifdef SPMVBENCH_CHECK
constexpr bool CHECKING = true;
#else
constexpr bool CHECKING = false;
#endif

// A place in the source, taken where a built-in is called.
struct Site {
  const char* file;
  int line;
  bool operator==(const Site& other) const { return line == other.line && file == other.file; }
};
// Two parameters and not one Site: GCC takes the caller's line only where the built-in is the whole default argument.
#define EMULATION_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// An argument's memory, for the checking build. `records` is the checker's own.
struct Buffer {
  char* begin;
  size_t bytes;
  u32 argument;
  u32 element_bytes;  // 0 where the kernel takes a pointer to const
  void* records;
};

constexpr u32 FAULT = 1, NO_MEMORY = 2;  // what `failed` of a launch can be, besides 0

// One launch; emulated.py mirrors the layout. `next` counts the blocks that are taken and is the only field that
// several host threads change, except `message`, which belongs to the thread that set `failed` first.
struct Launch {
  void (*call)(void* const* args);
  void* const* args;
  Buffer* buffers;
  u64 buffer_count;
  u64 seed;  // 0: lanes run in their natural order
  u64 next;
  u32 grid[3];
  u32 block[3];
  u32 shared_bytes;
  u32 failed;
  Launch* launched;  // by its threads, the last first; they run after it
  Launch* before;    // of the same launch's, the one launched before
  char message[2048];
};

struct Thread {
  void* stack_pointer;  // null while not started
  uint3 index;
  unsigned char warp, lane;
};

enum class Op : unsigned char {
  SYNC,
  SHUFFLE,
  BALLOT,
  ANY,
  ALL,
  MATCH,
  ADD,
  MIN,
  MAX,
  MIN_UNSIGNED,
  MAX_UNSIGNED,
  AND,
  OR,
  XOR
};

// What a lane brought to a collective of its warp, and what it gets.
struct Lane {
  u64 value, result;
  Site site;
  u32 mask;
  int source;  // of a shuffle
  Op op;
};

// Sets of lanes are bit masks. A live lane that is in none of the others is running.
struct Warp {
  u32 alive;
  u32 ready;
  u32 waiting;     // at a collective
  u32 at_barrier;  // at __syncthreads
  Lane lanes[WARP_SIZE];
};

enum class Vote { COUNT, AND, OR };

struct Block {
  Thread* current;
  uint3 block_index;
  dim3 block_dim, grid_dim;
  u32 ready_warps;  // warps with a ready lane
  u32 alive;
  u32 arrived, votes;            // at __syncthreads, and how many of them with a non-zero predicate
  u32 released, released_votes;  // the same when the last barrier opened
  Site barrier_site;
  Launch* launch;
  u64 linear_index;
  u64 random;  // 0: natural order
  u64 idle_yields;
  void* host_stack_pointer;
  u32 stacks_made, stacks_free;
  unsigned short free_stacks[MAX_THREADS];
  Thread threads[MAX_THREADS];
  Warp warps[MAX_WARPS];
};

// Where the linker put the library's variables, and the size of the host's pages.
struct Layout {
  const char *base, *image_begin, *image_end;
  long segment_offset;  // of the thread-local segment, which is the shared memory, from `anchor`
  size_t segment_bytes;
  long dynamic_offset;  // of dynamic_shared, from `anchor`
  bool has_dynamic;
  size_t page_bytes;
};
extern Layout layout;
char* shared_segment();  // of this host thread

// The block that runs on this stack. Not volatile: the answer is the same wherever in a kernel it is asked.
inline __attribute__((always_inline)) Block& this_block() {
  size_t stack_pointer;
#if defined(__x86_64__)
  asm("mov %%rsp, %0" : "=r"(stack_pointer));
#elif defined(__aarch64__)
  asm("mov %0, sp" : "=r"(stack_pointer));
#else
#error "the emulated device runs on x86-64 and aarch64"
#endif
  return *reinterpret_cast<Block*>(stack_pointer & ~(ARENA_BYTES - 1));
}

inline const uint3& this_thread() { return this_block().current->index; }
inline int this_lane() { return this_block().current->lane; }

// Waits for the live lanes of `mask`; each gets its own result.
u64 collective(Op op, u32 mask, u64 value, int source, Site here);
u32 barrier(Vote vote, bool predicate, Site here);
void yield();
void fence();
void make_ready(Block& block, u32 warp, u32 lanes);
// A grid that a thread launches: the arguments, bytes[i] of the i-th, are copied.
void launch_after(void (*call)(void* const* args), const void* const* args, const u32* bytes, u32 count, dim3 grid,
                  dim3 block);
void suspend(Block& block);  // run others until somebody makes this thread ready
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// What the compiler might split (a vector type) as the one access that it is on a GPU.
void load_whole(void* to, const void* from, size_t bytes);
void store_whole(void* to, const void* from, size_t bytes);

}  // namespace emulation
