// Makes a kernel instantiation callable from outside: what it takes, and a function that calls it for one thread.
#pragma once
#include "runtime.hpp"

namespace emulation {

// A parameter as Python checks it. kind: i, u, f as in NumPy, b for bool, s for a struct, v for void. For a pointer,
// kind and bytes are its element's.
// A struct has its members as parameters too.
struct Parameter {
  char kind;
  bool pointer;
  bool constant;
  u32 bytes;
  const Parameter* members;
  u64 member_count;
};

constexpr int MOST_MEMBERS = 24;

template <typename T>
struct Members;

// A number in a class of its own (f16) names the type of its bits.
template <typename T>
constexpr bool is_number(typename T::Number*) {
  return true;
}
template <typename T>
constexpr bool is_number(...) {
  return false;
}

template <typename T>
constexpr char kind_of() {
  if constexpr (is_number<T>(nullptr)) {
    return 'f';
  } else if constexpr (__is_class(T)) {
    return 's';
  } else if constexpr (T(2) == T(1)) {
    return 'b';
  } else if constexpr (T(1) / T(2) != T(0)) {
    return 'f';
  } else {
    return T(-1) < T(0) ? 'i' : 'u';
  }
}

template <typename T>
struct Describe {
  static constexpr Parameter plain{kind_of<T>(), false, false, sizeof(T), nullptr, 0};
  static constexpr Parameter with_members() {
    if constexpr (kind_of<T>() == 's') {
      return {'s', false, false, sizeof(T), Members<T>::parameters.values, Members<T>::COUNT};
    } else {
      return plain;
    }
  }
  static constexpr Parameter value = with_members();
};
template <typename T>
struct Describe<T*> {
  static constexpr Parameter value{kind_of<T>(), true, false, sizeof(T), nullptr, 0};
};
template <typename T>
struct Describe<const T*> {
  static constexpr Parameter value{kind_of<T>(), true, true, sizeof(T), nullptr, 0};
};
template <typename T>
struct Describe<volatile T*> : Describe<T*> {};
template <typename T>
struct Describe<const volatile T*> : Describe<const T*> {};
template <>
struct Describe<void*> {
  static constexpr Parameter value{'v', true, false, 1, nullptr, 0};
};
template <>
struct Describe<const void*> {
  static constexpr Parameter value{'v', true, true, 1, nullptr, 0};
};
template <typename T>
struct Describe<T* __restrict__> : Describe<T*> {};

template <int... I>
struct Indices {};
template <int N, int... I>
struct IndicesUpTo : IndicesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct IndicesUpTo<0, I...> {
  using Type = Indices<I...>;
};

// The members of a struct that a kernel takes by value, in order of declaration. It is an aggregate of at most
// MOST_MEMBERS pointers and numbers.
struct Anything {
  constexpr Anything(int) {}
  template <typename T>
  constexpr operator T() const;
};
template <typename T, int... I>
constexpr auto takes(Indices<I...>) -> decltype(T{Anything(I)...}, true) {
  return true;
}
template <typename T>
constexpr bool takes(...) {
  return false;
}
template <typename T, int N = 0>
constexpr int member_count() {
  if constexpr (takes<T>(typename IndicesUpTo<N + 1>::Type{})) {
    return member_count<T, N + 1>();
  } else {
    return N;
  }
}

template <int N>
struct Parameters {
  Parameter values[N];
};
template <typename... M>
constexpr Parameters<sizeof...(M)> described(const M&...) {
  return {{Describe<M>::value...}};
}

#define SPMVBENCH_NAMES_1 m1
#define SPMVBENCH_NAMES_2 SPMVBENCH_NAMES_1, m2
#define SPMVBENCH_NAMES_3 SPMVBENCH_NAMES_2, m3
#define SPMVBENCH_NAMES_4 SPMVBENCH_NAMES_3, m4
#define SPMVBENCH_NAMES_5 SPMVBENCH_NAMES_4, m5
#define SPMVBENCH_NAMES_6 SPMVBENCH_NAMES_5, m6
#define SPMVBENCH_NAMES_7 SPMVBENCH_NAMES_6, m7
#define SPMVBENCH_NAMES_8 SPMVBENCH_NAMES_7, m8
#define SPMVBENCH_NAMES_9 SPMVBENCH_NAMES_8, m9
#define SPMVBENCH_NAMES_10 SPMVBENCH_NAMES_9, m10
#define SPMVBENCH_NAMES_11 SPMVBENCH_NAMES_10, m11
#define SPMVBENCH_NAMES_12 SPMVBENCH_NAMES_11, m12
#define SPMVBENCH_NAMES_13 SPMVBENCH_NAMES_12, m13
#define SPMVBENCH_NAMES_14 SPMVBENCH_NAMES_13, m14
#define SPMVBENCH_NAMES_15 SPMVBENCH_NAMES_14, m15
#define SPMVBENCH_NAMES_16 SPMVBENCH_NAMES_15, m16
#define SPMVBENCH_NAMES_17 SPMVBENCH_NAMES_16, m17
#define SPMVBENCH_NAMES_18 SPMVBENCH_NAMES_17, m18
#define SPMVBENCH_NAMES_19 SPMVBENCH_NAMES_18, m19
#define SPMVBENCH_NAMES_20 SPMVBENCH_NAMES_19, m20
#define SPMVBENCH_NAMES_21 SPMVBENCH_NAMES_20, m21
#define SPMVBENCH_NAMES_22 SPMVBENCH_NAMES_21, m22
#define SPMVBENCH_NAMES_23 SPMVBENCH_NAMES_22, m23
#define SPMVBENCH_NAMES_24 SPMVBENCH_NAMES_23, m24
#define SPMVBENCH_MEMBERS(N)               \
  if constexpr (COUNT == N) {              \
    const auto& [SPMVBENCH_NAMES_##N] = t; \
    return described(SPMVBENCH_NAMES_##N); \
  }

template <typename T>
struct Members {
  static constexpr int COUNT = member_count<T>();
  static_assert(COUNT <= MOST_MEMBERS, "a struct that a kernel takes has too many members");
  static constexpr auto found() {
    constexpr T t{};
    SPMVBENCH_MEMBERS(1)
    SPMVBENCH_MEMBERS(2)
    SPMVBENCH_MEMBERS(3)
    SPMVBENCH_MEMBERS(4)
    SPMVBENCH_MEMBERS(5)
    SPMVBENCH_MEMBERS(6)
    SPMVBENCH_MEMBERS(7)
    SPMVBENCH_MEMBERS(8)
    SPMVBENCH_MEMBERS(9)
    SPMVBENCH_MEMBERS(10)
    SPMVBENCH_MEMBERS(11)
    SPMVBENCH_MEMBERS(12)
    SPMVBENCH_MEMBERS(13)
    SPMVBENCH_MEMBERS(14)
    SPMVBENCH_MEMBERS(15)
    SPMVBENCH_MEMBERS(16)
    SPMVBENCH_MEMBERS(17)
    SPMVBENCH_MEMBERS(18)
    SPMVBENCH_MEMBERS(19)
    SPMVBENCH_MEMBERS(20)
    SPMVBENCH_MEMBERS(21)
    SPMVBENCH_MEMBERS(22)
    SPMVBENCH_MEMBERS(23)
    SPMVBENCH_MEMBERS(24)
  }
  static constexpr auto parameters = found();
};

template <typename T>
struct Unqualified {
  using Type = T;
};
template <typename T>
struct Unqualified<const T> {
  using Type = T;
};

struct Kernel {
  const char* expression;
  void (*call)(void* const* args);
  const Parameter* parameters;
  u64 count;
};

template <auto Function>
struct Entry;
template <typename... P, void (*Function)(P...)>
struct Entry<Function> {
  static constexpr Parameter parameters[sizeof...(P) + 1] = {Describe<P>::value...};

  // Not instrumented: the arguments are in Python's memory, not in the device's.
  template <int... I>
  static __attribute__((no_sanitize("thread"))) void call_with([[maybe_unused]] void* const* args, Indices<I...>) {
    Function(*static_cast<typename Unqualified<P>::Type*>(args[I])...);
  }
  static __attribute__((no_sanitize("thread"))) void call(void* const* args) {
    call_with(args, typename IndicesUpTo<sizeof...(P)>::Type{});
  }

  static constexpr Kernel named(const char* expression) { return {expression, call, parameters, sizeof...(P)}; }
};

// A grid of a kernel that a thread launches.
template <auto Function>
struct Launched;
template <typename... P, void (*Function)(P...)>
struct Launched<Function> {
  static void start(dim3 grid, dim3 block, P... args) {
    const void* const at[] = {&args...};
    constexpr u32 bytes[] = {sizeof(P)...};
    launch_after(Entry<Function>::call, at, bytes, sizeof...(P), grid, block);
  }
};

}  // namespace emulation

// One list per unit: the instantiations that the unit is for, by their expressions, up to one without.
#define SPMVBENCH_KERNEL(EXPRESSION, ...) emulation::Entry<__VA_ARGS__>::named(EXPRESSION),
#define SPMVBENCH_KERNELS(...) \
  extern "C" __attribute__((visibility("default"))) const emulation::Kernel spmvbench_kernels[] = {__VA_ARGS__ {}};
