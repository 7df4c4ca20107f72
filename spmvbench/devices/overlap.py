"""Launches that start while the kernel before them still runs, by a function of the driver that CuPy does not wrap.

Programmatic dependent launch (CUDA C++ Programming Guide): the kernel itself waits for the one before it
(kernels/include/overlap.cuh). In a captured graph the launch is a node with a programmatic dependency (CUDA 12.3).
"""

from __future__ import annotations

from collections.abc import Callable

CAPABILITY = 9  # major compute capability from which on devices have it
OLDEST = 12040  # the CUDA version of the driver from which on graphs have it


def bound(handle: int, shape: tuple[int, ...], pointers: int, keep: object) -> Callable[[int], None]:
    """A call that launches a kernel in this way on a stream.

    handle: of the function. shape: grid and block, three each, and bytes of dynamic shared memory. pointers: the
    address of an array of the addresses of the arguments. keep: what they point to. Raises CuPy's CUDADriverError when
    it is called.
    """
    import cupy
    from cuda.bindings import driver

    attribute, config = driver.CUlaunchAttribute(), driver.CUlaunchConfig()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ = shape[:6]
    config.sharedMemBytes, config.attrs, config.numAttrs = shape[6], [attribute], 1
    launch = driver.cuLaunchKernelEx

    def run(stream: int, _keep: object = keep) -> None:
        config.hStream = stream
        (status,) = launch(config, handle, pointers, 0)
        if status:
            raise cupy.cuda.driver.CUDADriverError(int(status))

    return run
