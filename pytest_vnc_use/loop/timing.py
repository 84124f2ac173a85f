"""The wait after each step of a run, as two functions by which a model reads and changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LONGEST_DELAY_MS = 10_000


@dataclass
class Timing:
    """The timing of one run. `step_delay_s` may change during the run; `settings_s` are the others, in seconds."""

    step_delay_s: float
    settings_s: Mapping[str, float]

    def functions(self) -> Mapping[str, Callable[..., object]]:
        """Return the functions for a model, by name."""

        def get_timing() -> str:
            """Return the times of this run, in milliseconds."""
            times_s = {**self.settings_s, "step_delay": self.step_delay_s}
            return "\n".join(f"{name}_ms: {round(seconds * 1000)}" for name, seconds in times_s.items())

        def configure(step_delay_ms: float) -> str:
            """Set the wait after each step of this run, in milliseconds."""
            if isinstance(step_delay_ms, bool) or not 0 <= float(step_delay_ms) <= LONGEST_DELAY_MS:
                raise ValueError(f"step_delay_ms must be 0 to {LONGEST_DELAY_MS}, got {step_delay_ms!r}")
            self.step_delay_s = float(step_delay_ms) / 1000
            return get_timing()

        return {"get_timing": get_timing, "configure": configure}
