"""The emulated device's C++ (the CUDA built-ins and the scheduler) and what compiles kernels against it."""
