"""The functions of spmv_program.h by ctypes. As a program, `abi.py LIBRARY` prints a library's description as JSON.

It imports nothing of this package and no NumPy: the process that describes a library starts in a few milliseconds, and
what the library does there to its process is gone with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

VERSION = 1
OK, CANNOT_HOLD, FAILED = range(3)
TYPES = {"float64": 1, "float32": 2}
HOST, CUDA = 1, 2
SQUARE_ONLY, WIDE_OFFSETS, NO_CAPTURE, LOSSY_DECODE = 1, 2, 4, 8


class Description(ctypes.Structure):
    """spmv_description."""

    _fields_ = (
        ("size", c_uint32),
        ("version", c_uint32),
        ("name", c_char_p),
        ("reference", c_char_p),
        ("runs_on", c_int32),
        ("csr_on", c_int32),
        ("types", c_uint32),
        ("flags", c_uint32),
        ("parameters", c_char_p),
    )


class Csr(ctypes.Structure):
    """spmv_csr."""

    _fields_ = (
        ("rows", c_int64),
        ("cols", c_int64),
        ("entries", c_int64),
        ("row_ptr", c_void_p),
        ("columns", c_void_p),
        ("values", c_void_p),
        ("index_bits", c_int32),
        ("value_type", c_int32),
    )


ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_size_t, c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)


class Memory(ctypes.Structure):
    """spmv_memory."""

    _fields_ = (("allocate", ALLOCATE), ("release", RELEASE), ("context", c_void_p))


_REQUIRED = {
    "spmv_describe": (c_int, [c_void_p]),
    "spmv_convert": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "spmv_multiply": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "spmv_release": (None, [c_void_p]),
    "spmv_error": (c_char_p, []),
}
_OPTIONAL = {
    "spmv_transpose_multiply": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "spmv_update": (c_int, [c_void_p, c_void_p, c_void_p]),
    "spmv_bytes": (c_size_t, [c_void_p]),
    "spmv_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
}


def load(path: str) -> Any:
    """The library with the types of its functions declared; those that it lacks are None.

    Raises OSError if it cannot be loaded, ValueError with a sentence if it lacks a function that it must have.
    """
    library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    missing = [name for name in _REQUIRED if not hasattr(library, name)]
    if missing:
        raise ValueError(f'it lacks {", ".join(missing)} (in C++ they need extern "C", as in spmv_program.h)')
    for name, (result, arguments) in (_REQUIRED | _OPTIONAL).items():
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        else:
            setattr(library, name, None)
    return library


def describe(library: Any) -> dict[str, Any]:
    """What `spmv_describe` says, and which optional functions there are. Raises ValueError with a sentence."""
    found = Description(size=ctypes.sizeof(Description))
    if status := library.spmv_describe(ctypes.byref(found)):
        raise ValueError(f"spmv_describe returned {status}: {error_text(library)}")
    if found.version != VERSION:
        raise ValueError(f"spmv_describe says version {found.version} of the interface, this program has {VERSION}")
    texts: dict[str, Any] = {
        name: (getattr(found, name) or b"").decode("utf-8", "replace") for name in ("name", "reference")
    }
    parameters = (found.parameters or b"").decode("utf-8", "replace")
    return {
        **texts,
        "runs_on": found.runs_on,
        "csr_on": found.csr_on,
        "types": found.types,
        "flags": found.flags,
        "parameters": parameters,
        "functions": [name for name in _OPTIONAL if getattr(library, name) is not None],
    }


def error_text(library: Any) -> str:
    """The library's sentence about its last failure, in one line."""
    text = " ".join((library.spmv_error() or b"").decode("utf-8", "replace").split())
    return text or "it gives no reason (spmv_error)"


def main() -> None:
    """Print a description, or what is wrong, as one line of JSON on a descriptor that the library does not know."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the library prints is no description
    try:
        answer: dict[str, Any] = {"description": describe(load(os.path.abspath(sys.argv[1])))}
    except (OSError, ValueError) as error:
        answer = {"error": str(error)}
    os.write(out, json.dumps(answer).encode())


if __name__ == "__main__":
    main()
