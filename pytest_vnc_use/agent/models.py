"""The planner and the judge of an agent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Union

from pytest_vnc_use.agent import providers
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Observation
from pytest_vnc_use.types.protocols import EndsRun, Judge, Planner

AnyPlanner = Union[Planner, Callable[[Observation], object]]


class Models:
    """The given planner and judge, or those that the settings name, built on first use.

    They are kept while the settings stay the same: a planner keeps its conversation.

    Args:
        planner: A planner, or a function of the observation that returns the decision.
        judge: An object with the method `judge`.

    Raises:
        SettingsError: One of them is no planner, or no judge.
    """

    def __init__(self, planner: AnyPlanner | None, judge: Judge | None) -> None:
        if judge is not None and not callable(getattr(judge, "judge", None)):
            raise SettingsError(
                "a judge must be an object with the method `judge(claim, frame, *,"
                f" timeout_s, report) -> Verdict`, got {judge!r}"
            )
        self.custom_planner = None if planner is None else as_planner(planner)
        self.custom_judge = judge
        self._newest_planner: Planner | None = None
        self._build_planner = functools.lru_cache(1)(providers.build_planner)
        self._build_judge = functools.lru_cache(1)(providers.build_judge)

    def planner(
        self, settings: Settings, functions: Mapping[str, Callable[..., object]]
    ) -> Planner:
        """Return the planner, which may call the functions. Raises SettingsError."""
        if self.custom_planner is not None:
            self._newest_planner = self.custom_planner
        else:
            callables = tuple(functions.values())
            self._newest_planner = self._build_planner(settings, callables)
        return self._newest_planner

    def judge(self, settings: Settings) -> Judge:
        """Return the judge. Raises SettingsError."""
        if self.custom_judge is not None:
            return self.custom_judge
        return self._build_judge(settings)

    def has_judge(self, settings: Settings) -> bool:
        """Return whether claims can be judged. Raises KeyMissing."""
        if self.custom_judge is not None:
            return True
        if not providers.judge_of(settings):
            return False
        self._build_judge(settings)
        return True

    def close(self) -> None:
        """End what the newest planner keeps for its runs."""
        end_run(self._newest_planner)


def end_run(planner: Planner | None) -> None:
    """Have a planner that keeps something for a run end it."""
    if isinstance(planner, EndsRun):
        planner.end_run()
