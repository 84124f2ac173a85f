"""The planner and the judge of an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pytest_vnc_use.assembly.models import build_judge, build_planner, given_planner, no_planner
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import EndsRun, Judge, Planner


class LiveModels:
    """The planner and the judge that were given, or those that the settings name by now."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        functions: Mapping[str, Callable[..., object]],
        planner: object | None,
        judge: Judge | None,
    ) -> None:
        self._settings, self._functions = settings, functions
        self._request_s_at_first = settings().request_seconds
        if judge is not None and not callable(getattr(judge, "judge", None)):
            raise SettingsError(
                "a judge must be an object with the method `judge(claim, frame, *, timeout_s, report) -> Verdict`, "
                f"got {judge!r}"
            )
        self.given_planner = self.as_planner(planner) if planner is not None else None
        self.given_judge = judge
        self._newest: Planner | None = None
        self._build_planner, self._build_judge = lru_cache(1)(build_planner), lru_cache(1)(build_judge)

    @property
    def planner(self) -> Planner:
        """The planner of a run that has none of its own. Raises SettingsError."""
        self._newest = self.given_planner
        if self._newest is None:
            self._newest = self._build_planner(self._settings(), tuple(self._functions.values()))
        return self._newest

    def close(self) -> None:
        """Close what the planner keeps open, if anything."""
        if isinstance(self._newest, EndsRun):
            self._newest.end_run()

    @property
    def judge(self) -> Judge:
        """The judge of claims. Raises SettingsError."""
        return self.given_judge if self.given_judge is not None else self._build_judge(self._settings())

    @property
    def request_s(self) -> float | None:
        """The seconds of one request, if the settings have changed since the planner was given."""
        now_s = self._settings().request_seconds
        return now_s if now_s != self._request_s_at_first else None

    def as_planner(self, thing: object) -> Planner:
        """Return a user's planner as it is, or a callable as a planner. Raises SettingsError."""
        return given_planner(thing)

    def nobody(self) -> Planner:
        """Return the planner of a run that ends without a planner's answer."""
        return no_planner()
