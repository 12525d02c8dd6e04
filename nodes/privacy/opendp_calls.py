"""Invokes OpenDP's measurements through its C functions, its interface for every language.

OpenDP's Python layer parses types and converts element by element at each call, which takes longer than the
draw. The noise comes from the same function. Error texts show the private value, so they are freed unread.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from opendp._lib import lib  # noqa: TID251 # the exact sampler is OpenDP's
from opendp.mod import Measurement  # noqa: TID251 # as above

from nodes.values import IntArray

_TYPE = b"Vec<i64>"
_POINTER = ctypes.c_void_p


class _Slice(ctypes.Structure):
    _fields_ = (("start", _POINTER), ("length", ctypes.c_size_t))


class _Result(ctypes.Structure):
    _fields_ = (("failed", ctypes.c_uint32), ("pointer", _POINTER))


def _function(name: str, *arguments: type, returns: type = _Result) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(returns, *arguments)((name, lib))


_put = _function("opendp_data__slice_as_object", ctypes.POINTER(_Slice), ctypes.c_char_p)  # copies
_invoke = _function("opendp_core__measurement_invoke", _POINTER, _POINTER)
_look = _function("opendp_data__object_as_slice", _POINTER)  # copies nothing
_free_object = _function("opendp_data__object_free", _POINTER)
_free_slice = _function("opendp_data__slice_free", _POINTER)
_free_error = _function("opendp_core___error_free", _POINTER, returns=ctypes.c_bool)


def invoked(measurement: Measurement, values: IntArray) -> IntArray | None:
    """Return the measurement's result for integers, i64, `values` (n,); None on any failure."""
    given = np.ascontiguousarray(values, dtype=np.int64)
    taken = _pointer(_put(_Slice(given.ctypes.data, given.size), _TYPE))
    if taken is None:
        return None
    made = _pointer(_invoke(ctypes.cast(measurement, _POINTER), taken))
    _free_object(taken)
    if made is None:
        return None
    drawn = _copied(made)
    _free_object(made)
    return drawn


def _copied(address: int) -> IntArray | None:
    """Return a copy of the object's integers."""
    place = _pointer(_look(address))
    if place is None:
        return None
    found = _Slice.from_address(place)
    drawn = np.frombuffer(ctypes.string_at(found.start, 8 * found.length), np.int64)
    _free_slice(place)
    return drawn


def _pointer(result: _Result) -> int | None:
    if result.failed:
        _free_error(result.pointer)
        return None
    found: int = result.pointer
    return found
