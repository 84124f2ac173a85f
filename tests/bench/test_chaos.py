"""A minute of chaos, by a seed: sessions that are disturbed tell the truth, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.chaos import world
from support.chaos.disturbances import Action, Done, explained
from support.vnc_servers import missing, require

CHAOS = Path(__file__).with_name("chaos.py")


def test_disturbance_explains_only_tests_that_it_hit_or_that_ran_meanwhile() -> None:
    killed = Done(Action(1.0, "kill program", 0.5, None), "xterm 7", test=3)
    outage = Done(Action(2.0, "kill model", 0.5, 1.0), "process 8", test=None)
    assert explained([killed, outage], 3) == {"product", "inconclusive", "infra", "budget"}
    assert explained([killed, outage], 4) == {"infra", "budget"}
    outage = Done(Action(2.0, "kill model", 0.5, 5.0), "process 8", test=None, done_s=100.0)
    assert explained([outage], 4, [(80.0, 99.0)]) == explained([outage], 4, [(105.0, 110.0)]) == {"infra", "budget"}
    assert explained([outage], 4, [(80.0, 97.0), (107.0, 110.0)]) == set()
    nobodys = Done(Action(2.0, "kill X server", 0.5, None), "Xtigervnc 9", test=None, done_s=100.0)
    assert explained([nobodys], 4, [(107.0, 110.0)]) == {"infra", "inconclusive"}
    assert explained([nobodys], 4, [(80.0, 97.0)]) == set()


@pytest.mark.desktop
@pytest.mark.slow
def test_minute_of_chaos() -> None:
    for program in ("Xtigervnc", "openbox", "xterm"):
        require(program)
    if reason := world.why_not():
        missing("a namespace", reason)
    command = [sys.executable, str(CHAOS), "--seed=1", "--minutes=0.5", "--sessions=1"]
    env = world.with_tests()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 things were wrong" in done.stdout
