"""Stages of a Qt program: on Qt's own VNC platform, and on sway, whose screen wayvnc shows."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support import vnc_servers
from support.paths import PROGRAMS
from support.stages.stage import BITS, Pixels, Stage, Told, Wish, writing_to
from support.vnc_servers import VncServer, on_free_port, running, wait_for

_CANVAS = (sys.executable, str(PROGRAMS / "canvas.py"))
_NOBODY = 65534
_COLOURS_OF_A_DESKTOP = 10
_HEADLESS = {"WLR_BACKENDS": "headless", "WLR_LIBINPUT_NO_DEVICES": "1", "WLR_RENDERER": "pixman"}


@contextmanager
def qt(directory: Path, wish: Wish) -> Iterator[Stage]:
    vnc_servers.require_pyside()
    log, grabbed = directory / "heard", directory / "grabbed.ppm"
    bits = BITS[wish.depth]
    platform = f"vnc:size={wish.size[0]}x{wish.size[1]}:depth={wish.depth if wish.depth < 24 else 32}"
    with (
        writing_to(log) as pipes,
        on_free_port(
            lambda port: running(*_CANVAS, environment={"QT_QPA_PLATFORM": f"{platform}:port={port}"}, **pipes)
        ) as server,
    ):
        canvas = Told(server.process, log)
        wait_for(lambda: "painted" in canvas.lines(), "the canvas")

        def truth() -> Pixels:
            canvas.obey(f"grab {grabbed}")
            rgb = np.asarray(Image.open(io.BytesIO(grabbed.read_bytes())).convert("RGB"))
            return rgb >> (8 - np.array(bits, np.uint8))

        yield Stage(server, truth, canvas.lines, _painting(canvas), bits=bits, wheel=False)


@contextmanager
def wayvnc(directory: Path, wish: Wish) -> Iterator[Stage]:
    """Yield wayvnc before sway without a screen of its own; grim tells the truth."""
    vnc_servers.require_pyside()
    vnc_servers.require("grim")
    log = directory / "heard"
    with (
        sway(wish.size) as wayland,
        writing_to(log) as pipes,
        on_free_port(lambda port: running("wayvnc", "127.0.0.1", str(port), environment=wayland)) as server,
        running(*_CANVAS, environment={**wayland, "QT_QPA_PLATFORM": "wayland"}, **pipes) as program,
    ):
        server.environment = wayland
        canvas = Told(program, log)
        wait_for(lambda: "painted" in canvas.lines(), "the canvas")
        wait_for(lambda: _colours(_grim(server)[::16, ::16]) > _COLOURS_OF_A_DESKTOP, "the canvas on sway")
        yield Stage(server, lambda: _grim(server), canvas.lines, _painting(canvas), lambda size: _resize(server, size))


def _painting(canvas: Told) -> Callable[[], None]:
    seeds = itertools.count(2)
    return lambda: canvas.obey(f"paint {next(seeds)}")


@contextmanager
def sway(size: tuple[int, int]) -> Iterator[Mapping[str, str]]:
    """Yield the environment of programs on a running sway. Root may not run it, so the user `nobody` does."""
    with directory_of_an_ordinary_user() as (directory, user):
        config = directory / "config"
        config.write_text(f"output HEADLESS-1 resolution {size[0]}x{size[1]}\ndefault_border none\n")
        environment = {"XDG_RUNTIME_DIR": str(directory)}
        with running("sway", "-c", str(config), environment={**environment, **_HEADLESS}, **user):
            wait_for(lambda: all(any(directory.glob(sock)) for sock in ("sway-ipc.*.sock", "wayland-?")), "sway")
            (ipc,), (wayland,) = directory.glob("sway-ipc.*.sock"), directory.glob("wayland-?")
            yield {**environment, "WAYLAND_DISPLAY": wayland.name, "SWAYSOCK": str(ipc)}


@contextmanager
def directory_of_an_ordinary_user() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a directory with a short path, and what starts a program as its owner; under root that is `nobody`."""
    with tempfile.TemporaryDirectory(prefix="sway-") as name:
        if os.geteuid() != 0:
            yield Path(name), {}
            return
        shutil.chown(name, _NOBODY, _NOBODY)
        yield Path(name), {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def _resize(server: VncServer, size: tuple[int, int]) -> None:
    server.output_of("swaymsg", f"output HEADLESS-1 resolution {size[0]}x{size[1]}")


def _grim(server: VncServer) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(server.output_of("grim", "-t", "ppm", "-"))))


def _colours(rgb: Pixels) -> int:
    return len(Image.fromarray(rgb).getcolors(1 << 24) or ())
