"""The redaction of all that pytest reports: no report leaves its process with the value
of a secret in it.

Each report of a test, of a subtest and of a collection passes through one hook before
anything prints, stores or sends it, and each warning through another. A worker of
pytest-xdist redacts its reports. A secret of one test is a secret in the whole session,
because fixtures and logs are shared.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

from pytest_vnc_use.agent import credentials
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.options import secret_sources
from pytest_vnc_use.plugin.state import ATTACHED, SCREENSHOTS, SETTINGS
from pytest_vnc_use.runs.redactor import SHORT, Redactor
from pytest_vnc_use.settings.variables import read_secret

_LOOKUP_FIELDS = (
    "$report_type",
    "nodeid",
    "location",
    "keywords",
    "outcome",
    "when",
    "type",
    "style",
)
"""Fields that pytest and other plugins look things up by; they hold no text of a test
but its id.
"""
_CLEAN_FIELDS = (*_LOOKUP_FIELDS, ATTACHED, SCREENSHOTS)
"""Fields that need no redaction: this plugin makes its own without secrets."""
_PASSWORD = "VNC_PASSWORD"
"""The name of the password of the newest desktop."""
_SCREENSHOT = re.compile(r"(data:image/[^;]+;base64,[A-Za-z0-9+/=]+)")

Secret = tuple[str, str]
"""A name and a value."""
Hide = Callable[[str], str]


class SessionSecrets:
    """The secrets of a session: of `--vnc-secret`, of all tests that were collected, of
    models and the desktop.
    """

    def __init__(self, from_options: Mapping[str, str]) -> None:
        self.from_options = from_options
        """Those of `--vnc-secret`, which every test may have typed."""
        self.declared: frozenset[Secret] = frozenset()
        """Those that options and markers declare; a name may have several values."""
        self._all: frozenset[Secret] = frozenset()
        self._hide: Hide = str
        self.hide_in_id: Hide = str
        """Takes secrets out of the id of a parameter, in which a short value may occur
        by chance.
        """
        self.declare(from_options)

    def declare(self, values: Mapping[str, str]) -> None:
        """Redact these values, which an option or a marker names, also in the runs of
        all tests from now on.
        """
        self.declared |= _secrets_in(values)
        self.add(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Redact these values, by name, from now on; empty values are ignored.

        A desktop's password replaces that of the desktop before, which has stopped, so
        that there are not as many as tests.
        """
        replaced = set()
        if values.get(_PASSWORD):
            undeclared = self._all - self.declared
            replaced = {secret for secret in undeclared if secret[0] == _PASSWORD}
        secrets = (self._all - replaced) | _secrets_in(values)
        if secrets == self._all:
            return
        self._all = secrets
        in_order = sorted(secrets)
        self._hide = Redactor({}, others=in_order).hide_pieces
        long = [(name, value) for name, value in in_order if len(value) >= SHORT]
        self.hide_in_id = Redactor({}, others=long).hide

    def hide(self, text: str) -> str:
        """Return a text without secrets; screenshots in it stay. A text that cannot be
        redacted is withheld.
        """
        try:
            parts = _SCREENSHOT.split(text)
            texts = parts[::2]  # the others are screenshots
            parts[::2] = map(self._hide, texts)
            return "".join(parts)
        except Exception as exc:  # noqa: BLE001  # whatever breaks here must hide neither the failure nor show a secret
            return withheld(exc)


def _secrets_in(values: Mapping[str, str]) -> set[Secret]:
    return {(name, value) for name, value in values.items() if value}


def withheld(error: Exception) -> str:
    """Return the sentence for a text that could not be redacted."""
    return (
        "This text is withheld, because its secrets could not be hidden:"
        f" {type(error).__name__}."
    )


SECRETS = pytest.StashKey[SessionSecrets]()
"""The secrets of the session, in the stash of its config."""


def secrets_of(config: pytest.Config) -> SessionSecrets:
    """Return the secrets of the session. Raises UsageError if one cannot be read."""
    if SECRETS in config.stash:
        return config.stash[SECRETS]
    values = {}
    for text, option, base in secret_sources(config):
        try:
            name, value = read_secret(text, option, base)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
        values[name] = value
    config.stash[SECRETS] = SessionSecrets(values)
    return config.stash[SECRETS]


def pytest_configure(config: pytest.Config) -> None:
    """Learn the keys of models and the desktop's password."""
    ambient = credentials.ambient_secrets(config.stash[SETTINGS])
    secrets_of(config).add(ambient)
    config.pluginmanager.register(Redaction(config), "vnc_use_Redaction")
    _redact_logs(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Redact the logs, which pytest opens after this plugin is configured."""
    _redact_logs(session.config)


def _redact_logs(config: pytest.Config) -> None:
    """Have pytest's live log and its log file redacted as they are written, if they are
    open.
    """
    logs = config.pluginmanager.get_plugin("logging-plugin")
    for name in ("log_file_handler", "log_cli_handler"):
        handler = getattr(logs, name, None)
        if not isinstance(handler, logging.Handler):
            continue
        formatter = handler.formatter or logging.Formatter()
        if not isinstance(formatter, _RedactingFormatter):
            secrets = secrets_of(config)
            handler.setFormatter(_RedactingFormatter(formatter, secrets))


class _RedactingFormatter(logging.Formatter):
    """A formatter that removes secrets from what another one formats."""

    def __init__(self, formatter: logging.Formatter, secrets: SessionSecrets) -> None:
        super().__init__()
        self._formatter = formatter
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text without secrets."""
        return self._secrets.hide(self._formatter.format(record))


class Redaction:
    """The hooks that redact, for one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_parametrize_id(self, val: object) -> str | None:
        """Put a secret's name into the id of a test instead of its value, which is a
        parameter.
        """
        if isinstance(val, bytes):
            val = val.decode("utf-8", "replace")
        if not isinstance(val, str):
            return None
        hidden = secrets_of(self._config).hide_in_id(val)
        return hidden if hidden != val else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(
        self,
        report: pytest.TestReport | pytest.CollectReport,
    ) -> Generator[None, None, None]:
        """Redact a report on a test, or on a collection, before any other plugin
        receives it.
        """
        self._redact(report)
        return (yield)

    pytest_collectreport = pytest_runtest_logreport

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Redact a warning's text and source line. The warning that was raised stays as
        it is.
        """
        hide = secrets_of(self._config).hide
        message = str(warning_message.message)
        hidden = hide(message)
        if hidden != message:
            warning_message.message = UserWarning(hidden)
        if warning_message.line:
            warning_message.line = hide(warning_message.line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
    ) -> None:
        """Redact the end of the session by Ctrl-C or `pytest.exit`, before the terminal
        shows it.
        """
        representation: Any = excinfo.getrepr(funcargs=True)
        report = pytest.TestReport(
            nodeid="",
            location=("", None, ""),
            keywords={},
            outcome="failed",
            longrepr=representation,
            when="call",
        )
        self._redact(report)
        if isinstance(report.longrepr, str):
            representation.reprcrash.message = report.longrepr
        else:
            representation = report.longrepr
        excinfo.getrepr = lambda **_: representation  # type: ignore[method-assign]  # for the terminal and all others

    def _redact(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Replace the report's texts by texts without secrets. If that fails, it keeps
        its outcome and no text.

        pytest's serialized form has all texts of a report, whatever class represents an
        error.
        """
        config = self._config
        hide = secrets_of(config).hide
        try:
            sent = config.hook.pytest_report_to_serializable(
                config=config,
                report=report,
            )
            clean = _redact_value(sent, hide)
            if clean == sent:
                return
            received = config.hook.pytest_report_from_serializable(
                config=config,
                data=clean,
            )
            fields = vars(received)
            # the items of a collection, which are not sent
            fields.pop("result", None)
            vars(report).update(fields)
        except Exception as exc:  # noqa: BLE001  # an error here would end the session, and the failure would be lost
            report.longrepr = withheld(exc) if report.longrepr else None
            report.sections = []
            if isinstance(report, pytest.TestReport):
                report.user_properties = []


def _redact_value(value: Any, hide: Hide) -> Any:
    """Return a value of a report's fields without secrets."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        fields = value.items()
        return {name: _redact_field(name, item, hide) for name, item in fields}
    if isinstance(value, (list, tuple)):
        items = [_redact_value(item, hide) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _redact_field(
    name: str,
    value: Any,
    hide: Hide,
) -> Any:
    if name in _CLEAN_FIELDS:
        return value
    if name == "user_properties":
        return [_redact_property(key, text, hide) for key, text in value]
    if name == "lines" and value:
        return _redact_lines(value, hide)
    return _redact_value(value, hide)


def _redact_lines(lines: list[str], hide: Hide) -> list[str]:
    """Return the lines of an error without secrets, of which one may be on several."""
    ends_lines = any(line.endswith("\n") for line in lines)
    if ends_lines:  # as in a traceback by Python
        return [hide("".join(lines))]
    text = hide("\n".join(lines))
    return text.split("\n")


def _redact_property(
    name: object,
    value: object,
    hide: Hide,
) -> tuple[str, object]:
    """Return a property without secrets. A value that contains one becomes the text
    that reports show.
    """
    text = str(value)
    hidden = hide(text)
    if hidden != text:
        value = hidden
    return hide(str(name)), value
