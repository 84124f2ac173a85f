"""The floor for any capture on this machine: XGetImage into shared memory (MIT-SHM), by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_long, c_uint, c_ulong, c_void_p

import numpy as np
import numpy.typing as npt

_Z_PIXMAP = 2
_ALL_PLANES = c_ulong(-1)
_IPC_PRIVATE, _CREATE, _REMOVE = 0, 0o1600, 0


class _Image(Structure):
    _fields_ = (
        *((name, c_int) for name in ("width", "height", "xoffset", "format")),
        ("data", c_void_p),
        *((name, c_int) for name in ("byte_order", "unit", "bit_order", "pad", "depth", "bytes_per_line", "bits")),
    )


class _Segment(Structure):
    _fields_ = (("seg", c_ulong), ("id", c_int), ("address", c_void_p), ("read_only", c_int))


@contextmanager
def shared_screen(display: str, size: tuple[int, int]) -> Iterator[SharedScreen]:
    """The screen of an X server, to be fetched again and again."""
    screen = SharedScreen(display, size)
    try:
        yield screen
    finally:
        screen.close()


class SharedScreen:
    """A connection to an X server, and the memory it shares."""

    def __init__(self, display: str, size: tuple[int, int]) -> None:
        self._x, self._ext, self._c = (ctypes.CDLL(name) for name in ("libX11.so.6", "libXext.so.6", "libc.so.6"))
        self._declare()
        self._display = self._x.XOpenDisplay(display.encode())
        self._root = self._x.XDefaultRootWindow(self._display)
        visual, depth = self._x.XDefaultVisual(self._display, 0), self._x.XDefaultDepth(self._display, 0)
        self._segment, self._size = _Segment(), size
        create = self._ext.XShmCreateImage
        self._image = create(self._display, visual, depth, _Z_PIXMAP, None, byref(self._segment), *size)
        self._attach()

    def fetch(self) -> npt.NDArray[np.uint32]:
        """The pixels as they are now, of shape (height, width); overwritten by the next call."""
        self._ext.XShmGetImage(self._display, self._root, self._image, 0, 0, _ALL_PLANES)
        return self._pixels

    def close(self) -> None:
        self._ext.XShmDetach(self._display, byref(self._segment))
        self._x.XCloseDisplay(self._display)

    def _declare(self) -> None:
        self._x.XOpenDisplay.restype, self._x.XOpenDisplay.argtypes = c_void_p, [c_char_p]
        self._x.XDefaultRootWindow.restype, self._x.XDefaultRootWindow.argtypes = c_ulong, [c_void_p]
        self._x.XDefaultVisual.restype, self._x.XDefaultVisual.argtypes = c_void_p, [c_void_p, c_int]
        self._x.XDefaultDepth.argtypes = self._x.XCloseDisplay.argtypes = [c_void_p]
        self._x.XDefaultDepth.argtypes = [c_void_p, c_int]
        self._x.XSync.argtypes = [c_void_p, c_int]
        image, segment = POINTER(_Image), POINTER(_Segment)
        self._ext.XShmCreateImage.restype = image
        create = [c_void_p, c_void_p, c_uint, c_int, c_void_p, segment, c_uint, c_uint]
        self._ext.XShmCreateImage.argtypes = create
        self._ext.XShmAttach.argtypes = self._ext.XShmDetach.argtypes = [c_void_p, segment]
        self._ext.XShmGetImage.argtypes = [c_void_p, c_ulong, image, c_int, c_int, c_ulong]
        self._c.shmat.restype, self._c.shmat.argtypes = c_void_p, [c_int, c_void_p, c_int]
        self._c.shmget.argtypes = [c_int, c_long, c_int]

    def _attach(self) -> None:
        width, height = self._size
        image = self._image.contents
        length = image.bytes_per_line * height
        self._segment.id = self._c.shmget(_IPC_PRIVATE, length, _CREATE)
        self._segment.address = image.data = self._c.shmat(self._segment.id, None, 0)
        self._ext.XShmAttach(self._display, byref(self._segment))
        self._x.XSync(self._display, 0)
        self._c.shmctl(self._segment.id, _REMOVE, None)
        memory = (ctypes.c_uint32 * (length // 4)).from_address(image.data)
        self._pixels = np.frombuffer(memory, np.uint32).reshape(height, -1)[:, :width]
