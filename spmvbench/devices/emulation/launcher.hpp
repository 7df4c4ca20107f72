// Makes a kernel instantiation callable from outside: what it takes, and a function that calls it for one thread.
#pragma once
#include "runtime.hpp"

namespace emulation {

// A parameter as Python checks it. kind: i, u, f as in NumPy, b for bool, s for a struct, v for void. For a pointer,
// kind and bytes are its element's.
struct Parameter {
  char kind;
  bool pointer;
  bool constant;
  u32 bytes;
};

template <typename T>
constexpr char kind_of() {
  if constexpr (__is_class(T)) {
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
  static constexpr Parameter value{kind_of<T>(), false, false, sizeof(T)};
};
template <typename T>
struct Describe<T*> {
  static constexpr Parameter value{kind_of<T>(), true, false, sizeof(T)};
};
template <typename T>
struct Describe<const T*> {
  static constexpr Parameter value{kind_of<T>(), true, true, sizeof(T)};
};
template <typename T>
struct Describe<volatile T*> : Describe<T*> {};
template <typename T>
struct Describe<const volatile T*> : Describe<const T*> {};
template <>
struct Describe<void*> {
  static constexpr Parameter value{'v', true, false, 1};
};
template <>
struct Describe<const void*> {
  static constexpr Parameter value{'v', true, true, 1};
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

  // Not instrumented: the arguments lie in Python's memory, not in the device's.
  template <int... I>
  static __attribute__((no_sanitize("thread"))) void call_with([[maybe_unused]] void* const* args, Indices<I...>) {
    Function(*static_cast<typename Unqualified<P>::Type*>(args[I])...);
  }
  static __attribute__((no_sanitize("thread"))) void call(void* const* args) {
    call_with(args, typename IndicesUpTo<sizeof...(P)>::Type{});
  }

  static constexpr Kernel named(const char* expression) { return {expression, call, parameters, sizeof...(P)}; }
};

}  // namespace emulation

// One list per unit: the instantiations that the unit is for, by their expressions, up to one without.
#define SPMVBENCH_KERNEL(EXPRESSION, ...) emulation::Entry<__VA_ARGS__>::named(EXPRESSION),
#define SPMVBENCH_KERNELS(...) \
  extern "C" __attribute__((visibility("default"))) const emulation::Kernel spmvbench_kernels[] = {__VA_ARGS__ {}};
