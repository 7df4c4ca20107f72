// Counts of numbers that neighbouring entries share: a block keeps its own of those that find a place, so that few meet
// at an address of all blocks.
#pragma once

constexpr int PRIVATE_PLACES = 4096;
constexpr int MET_AGAIN = 4;  // what it is worth, other numbers -1
constexpr int LEAST_LUCK = -10;

struct PrivateCounts {
  static constexpr int NONE = 0x7fffffff;  // no number

  int numbers[PRIVATE_PLACES];
  int counts[PRIVATE_PLACES];

  // All threads of the block arrive, here and in `end`.
  __device__ __forceinline__ void begin() {
    for (int place = threadIdx.x; place < PRIVATE_PLACES; place += blockDim.x) {
      numbers[place] = NONE;
      counts[place] = 0;
    }
    __syncthreads();
  }

  // all: the count of number 0, those of others before and after it. luck: of a thread, 0 before: how often its
  // numbers met again; a thread with less luck than LEAST_LUCK adds to `all` alone from then on. times: to add.
  __device__ __forceinline__ void add(int number, int* __restrict__ all, int& luck, int times = 1) {
    const int place = number & (PRIVATE_PLACES - 1);
    const int owner = luck < LEAST_LUCK ? -NONE : atomicCAS(numbers + place, NONE, number);
    luck += owner == number ? MET_AGAIN : -1;
    atomicAdd(owner == NONE || owner == number ? counts + place : all + number, times);
  }

  __device__ __forceinline__ void end(int* __restrict__ all) {
    __syncthreads();
    for (int place = threadIdx.x; place < PRIVATE_PLACES; place += blockDim.x) {
      if (counts[place]) atomicAdd(all + numbers[place], counts[place]);
    }
  }
};
