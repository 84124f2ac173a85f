"""The first action of a test waits until the program's first screen is stable, and no longer than the limit."""

from __future__ import annotations

import itertools
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Frame, Proposal, TypeText
from support.memory_desktop import ListPlanner, act, finished
from support.rfb_server import RAW, greeting, rectangle, update
from support.wire import serving

SIZE = 64
EVERY_S = 0.15


@dataclass
class Program:
    """A program that draws so many first screens, one after the other; `heard` is what happens, in order."""

    screens: int
    heard: list[str] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)


def server_of(program: Program) -> type[socketserver.BaseRequestHandler]:
    class Server(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(greeting(SIZE, SIZE))
            self.rfile.read(14)
            shades = itertools.count(40, 40)
            drawing = threading.Thread(target=self.draw, args=(shades,))
            while kind := self.rfile.read(1):
                self.hear(kind[0], drawing)
            program.gone.set()
            if drawing.ident:
                drawing.join()

        def hear(self, kind: int, drawing: threading.Thread) -> None:
            match kind:
                case 0:
                    self.rfile.read(19)
                case 2:
                    self.rfile.read(4 * struct.unpack(">BH", self.rfile.read(3))[1])
                case 3:
                    incremental = self.rfile.read(9)[0]
                    if not incremental:
                        self.paint(20)
                    if not drawing.ident:
                        drawing.start()
                case 4:
                    self.rfile.read(7)
                    program.heard.append("key")
                case 5:
                    self.rfile.read(5)

        def draw(self, shades: Iterator[int]) -> None:
            for shade in itertools.islice(shades, program.screens):
                if program.gone.wait(EVERY_S):
                    return
                program.heard.append("screen")
                self.paint(shade)

        def paint(self, shade: int) -> None:
            left, right = bytes([shade % 256]) * 4, bytes([255 - shade % 256]) * 4
            rows = (left * (SIZE // 2) + right * (SIZE // 2)) * SIZE
            self.wfile.write(update(rectangle(0, 0, SIZE, SIZE, RAW, rows)))

    return Server


@contextmanager
def agent_before(program: Program, directory: Path) -> Iterator[VncUseAgent]:
    with serving(server_of(program)) as address:
        settings = Settings(server=address, runs_dir=str(directory / "runs"), start_seconds=1.0)
        planner = ListPlanner([act(Proposal(TypeText("a"))), finished()])
        with closing(VncUseAgent(settings=settings, planner=planner, hitl_mode=False)) as agent:
            yield agent


def by_hand(agent: VncUseAgent) -> Frame:
    return agent.type_text("a")


def by_key(agent: VncUseAgent) -> Frame:
    return agent.key("a")


def by_task(agent: VncUseAgent) -> object:
    return agent.run("Type a")


@pytest.mark.parametrize("do", [by_hand, by_key, by_task])
def test_first_action_waits_for_first_screen(do: Callable[[VncUseAgent], object], tmp_path: Path) -> None:
    program = Program(screens=3)
    with agent_before(program, tmp_path) as agent:
        do(agent)
    assert before_the_keys(program.heard) == 3
    assert "key" in program.heard


def test_screen_that_moves_by_itself_holds_nothing_up(tmp_path: Path) -> None:
    program = Program(screens=10_000)
    with agent_before(program, tmp_path) as agent:
        agent.controller.settle()
        agent.key("a")
    assert "key" in program.heard
    assert before_the_keys(program.heard) * EVERY_S < 15


def before_the_keys(heard: Sequence[str]) -> int:
    return [*heard, "key"].index("key")
