"""How often verdicts are wrong that a judge who is right 87 times in 100 comes to by votes: a table in Markdown.

    PYTHONPATH=tests python tests/bench/votes.py [CLAIMS] [--wire]

Half of the claims are true. Each is judged by 1, 3 and 5 votes of a judge that says the opposite of the truth 13 times
in 100, by a seeded draw. Beside what was counted stands what arithmetic expects, and two standard deviations of it.
With --wire every vote is a request of the Gemini judge to a local fake server for the service, which takes some 0.1 s.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_vnc_use.agent.claims import judge_claim
from pytest_vnc_use.planners.gemini.planner import GeminiJudge
from pytest_vnc_use.types import Frame, Report, Verdict, VerdictKind
from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, text
from support.memory_desktop import painted

CLAIMS = 2_000
RIGHT = 0.87
VOTES = (1, 3, 5)
COLUMNS = (
    "votes",
    "false passes",
    "by arithmetic",
    "false failures",
    "by arithmetic",
    "calls a claim",
    "by arithmetic",
)
SEED = 20261122


@dataclass
class Tally:
    """The results of the claims with so many votes each."""

    votes: int
    true: int = 0
    false: int = 0
    false_passes: int = 0
    false_failures: int = 0
    calls: int = 0

    def count(self, is_true: bool, passes: bool, calls: int) -> None:
        self.calls += calls
        if is_true:
            self.true += 1
            self.false_failures += not passes
        else:
            self.false += 1
            self.false_passes += passes

    def row(self) -> Iterator[str]:
        wrong = wrong_by_majority(self.votes)
        yield f"{self.votes}"
        yield f"{self.false_passes / self.false:.1%}"
        yield f"{wrong:.1%} ± {spread(wrong, self.false):.1%}"
        yield f"{self.false_failures / self.true:.1%}"
        yield f"{wrong:.1%} ± {spread(wrong, self.true):.1%}"
        yield f"{self.calls / (self.true + self.false):.2f}"
        yield f"{calls_by_arithmetic(self.votes):.2f}"


def main(claims: int, *, over_wire: bool) -> None:
    draw = random.Random(SEED)
    print(f"{claims:,} claims, half of them true; a judge that is right {RIGHT:.0%} of the time\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
    with GeminiServer(lambda request: replied(request, draw)) as server:
        judge = GeminiJudge(api_key=server.api_key, base_url=server.url) if over_wire else DrawnJudge(draw)
        for votes in VOTES:
            print(f"| {' | '.join(tallied(judge, votes, claims).row())} |", flush=True)


def drawn(claim: str, draw: random.Random) -> VerdictKind:
    """The truth, which stands in the claim, or its opposite."""
    is_right = draw.random() < RIGHT
    return "holds" if ("true" in claim) == is_right else "fails"


@dataclass(frozen=True)
class DrawnJudge:
    """The port Judge, without a service."""

    draw: random.Random

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        return Verdict(claim, drawn(claim, self.draw), "drawn")


def replied(request: Request, draw: random.Random) -> Reply:
    claim = request.contents[0]["parts"][0]["text"]
    return text(json.dumps({"reason": "drawn", "verdict": drawn(claim, draw), "box_2d": None}))


def tallied(judge: GeminiJudge, votes: int, claims: int) -> Tally:
    tally, frame = Tally(votes), painted(0)
    for number in range(claims):
        is_true = number % 2 == 0
        claim = f"this is {'true' if is_true else 'false'}, number {number}"
        verdict = judge_claim(judge, claim, frame, votes=votes)
        tally.count(is_true, bool(verdict), len(verdict.votes))
    return tally


def wrong_by_majority(votes: int) -> float:
    """The binomial chance that most of so many independent votes are wrong."""
    return sum(_chance(votes, wrong) for wrong in range(votes // 2 + 1, votes + 1))


def calls_by_arithmetic(votes: int) -> float:
    """Return the mean number of votes until one side has its majority."""
    needed = votes // 2 + 1
    return sum(last * _decided_at(last, needed) for last in range(needed, votes + 1))


def _decided_at(last: int, needed: int) -> float:
    """The chance that one side gets the vote that it needed as the last of so many."""
    others = last - needed
    right = RIGHT**needed * (1 - RIGHT) ** others
    wrong = (1 - RIGHT) ** needed * RIGHT**others
    return math.comb(last - 1, others) * (right + wrong)


def _chance(votes: int, wrong: int) -> float:
    return math.comb(votes, wrong) * (1 - RIGHT) ** wrong * RIGHT ** (votes - wrong)


def spread(chance: float, draws: int) -> float:
    """Two standard deviations of a share of so many draws."""
    return 2 * math.sqrt(chance * (1 - chance) / draws)


if __name__ == "__main__":
    counts = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    main(counts[0] if counts else CLAIMS, over_wire="--wire" in sys.argv)
