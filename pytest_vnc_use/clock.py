"""The clocks of this package: they run on while a test stops or moves those of `time`
(freezegun, time-machine).
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone

# in a tuple, where freezegun does not look for clocks to replace
_WINDOWS = time.perf_counter, time.time


def monotonic() -> float:
    """Return seconds on the monotonic clock, for durations; processes of one machine
    may compare them.
    """
    # neither freezegun nor time-machine replaces it, whenever this module was imported;
    # Windows has none
    if sys.platform == "win32":
        return _WINDOWS[0]()
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def epoch() -> float:
    """Return seconds since 1970; time-machine moves them."""
    if sys.platform == "win32":
        return _WINDOWS[1]()
    return time.clock_gettime(time.CLOCK_REALTIME)


def utc_now() -> datetime:
    """Return the date and time in UTC."""
    return datetime.fromtimestamp(epoch(), timezone.utc)
