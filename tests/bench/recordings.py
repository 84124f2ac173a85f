"""What a replay is worth: how much sooner it is than a model, and which faults of the till it lets pass.

    python tests/bench/run.py recordings

Ten steps are recorded with a planner that takes 2 s a turn, as a model does, and a claim with its evidence. Then they
are performed live and replayed, on the same kind of desktop; and replayed on a till with one fault after the other.
Once more with eight clicks on one button, the worst case: a replay keeps them apart, so that they are no double clicks.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.types import Action, Click, Decision, KeyCombo, Observation
from support.fixed_judge import CLAIM, Says
from support.tills import ADD, PAY, STEPS, Played, Steps, Tills

MODEL_S = 2.0
CLICKS = (STEPS[0], *[Click(*ADD)] * 8, Click(*PAY))
MIXED = (STEPS[0], Click(*ADD), *[KeyCombo(("space",))] * 7, Click(*PAY))
FAULTS = (
    "wrong total",
    "off by one",
    "no effect",
    "wrong label",
    "wrong colour",
    "moved button",
    "stale status",
    "spelling",
    "another mark",
    "wrong file",
)
HARMLESS = {
    "harmless: up to 2 s before each reaction": "--slow=2",
    "harmless: a clock that did not tick when it was recorded": "--clock",
}


class Model(Steps):
    """Takes its time."""

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        time.sleep(MODEL_S)
        return super().decide(observation, timeout_s=timeout_s)


def seconds(played: Played) -> float:
    began_s = time.monotonic()
    played.run()
    return time.monotonic() - began_s


def found_by(tills: Tills, option: str) -> str:
    """Return who sees that the till changed: a gate, the claim, or the test's body; "nobody" if the test passes."""
    with tills.agent("replay", None, option, gate_s=5.0) as played:
        try:
            played.run()
        except RecordingDrifted as drifted:
            return f"a gate: {str(drifted).partition('as recorded ')[2].partition(':')[0]}"
        if played.agent.verify(CLAIM).kind != "holds":
            return "the claim, which is unsure"
        return "nobody" if played.total == "alice pays 20.00" else "the test's body"


def compared(what: str, actions: Sequence[Action]) -> Tills:
    """Records, performs live, and replays; the tills on which that was, with the recording."""
    tills = Tills(Path(tempfile.mkdtemp(prefix="recordings-")))
    with tills.agent("auto", Model(*actions), judge=Says()) as played:
        played.run()
        played.agent.verify(CLAIM)
        played.recorded.keep()
    with tills.agent("off", Model(*actions)) as played:
        live_s = seconds(played)
    replayed = []
    for _ in range(5):
        with tills.agent("replay") as played:
            replayed.append(seconds(played))
    replay_s = statistics.median(replayed)
    print(f"{what}: live {live_s:.1f} s, replayed {replay_s:.2f} s (median of 5): {live_s / replay_s:.0f} times sooner")
    return tills


def main() -> None:
    compared("eight clicks on one button, a text and another click", CLICKS)
    tills = compared("a text, two clicks, seven keys", MIXED)
    print("\n| the till | seen by |\n|---|---|")
    for fault in FAULTS:
        print(f"| {fault} | {found_by(tills, f'--fault={fault}')} |", flush=True)
    for what, option in HARMLESS.items():
        print(f"| {what} | {found_by(tills, option)} |", flush=True)


if __name__ == "__main__":
    main()
