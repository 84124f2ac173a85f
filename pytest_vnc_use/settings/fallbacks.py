"""The settings of a local vision agent. `vnc_toolset = local_agent` alone chooses its
tools, its server and its limits.

Its environment variables are read only with that setting. They are weaker than any
setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from pytest_vnc_use.settings.variables import VARIABLES as ENVIRON

Layer = tuple[Mapping[str, object], Callable[[str], str]]

LOCAL_AGENT = "local_agent"
ENDPOINT = "LMSTUDIO_ENDPOINT"
VARIABLES: dict[str, tuple[str, str]] = {
    ENDPOINT: ("base_url", "http://localhost:1234/v1/chat/completions"),
    "LMSTUDIO_MODEL": ("model", "qwen3-vl-8b-instruct"),
    "LMSTUDIO_TIMEOUT": ("request_seconds", "240"),
    "LMSTUDIO_TEMPERATURE": ("", "0.6"),
    "LMSTUDIO_MAX_TOKENS": ("", "2048"),
    "AGENT_KEEP_LAST_SCREENSHOTS": ("", "2"),
    "AGENT_KEEP_LAST_THINKS": ("", "2"),
    "AGENT_MAX_STEPS": ("max_steps", "10"),
    "AGENT_STEP_DELAY": ("step_delay", "0.4"),
    "AGENT_IMAGE_W": ("", "1536"),
    "AGENT_IMAGE_H": ("", "864"),
    "AGENT_DUMP_DIR": ("", "dumps"),
    "AGENT_DUMP_PREFIX": ("", "screen_"),
    "AGENT_DUMP_START": ("", "1"),
}
"""For each variable the setting whose default it is, if any, and the variable's own
default.
"""

OPTIONS = {
    "temperature": "LMSTUDIO_TEMPERATURE",
    "max_tokens": "LMSTUDIO_MAX_TOKENS",
    "keep_screenshots": "AGENT_KEEP_LAST_SCREENSHOTS",
    "reasoning_turns": "AGENT_KEEP_LAST_THINKS",
}
"""The planner's options, with the variables that are their defaults."""


def local_agent_value(name: str) -> str:
    """Return the value of one of the variables, or its default."""
    return ENVIRON.get(name) or VARIABLES[name][1]


def fallback_layer(layers: Sequence[Layer]) -> Layer:
    """Return the layer of a local agent, which is weaker than `layers`; empty if they
    do not choose such an agent.
    """
    toolset = strongest_value("toolset", layers)
    planner = strongest_value("planner", layers)
    if toolset != LOCAL_AGENT or planner not in (None, "", "openai"):
        return {}, str
    values: dict[str, object] = {
        field: local_agent_value(name)
        for name, (field, _) in VARIABLES.items()
        if field
    }
    values["planner"] = "openai"
    with suppress(ValueError):  # a value that is no number is rejected later
        steps = float(str(values["max_steps"]))
        step_s = float(str(values["request_seconds"])) + 60.0
        values["max_seconds"] = str(steps * step_s)  # only its steps limit a run
    names = {field: name for name, (field, _) in VARIABLES.items()}
    return values, lambda field: names.get(field, field)


def format_fallbacks(
    toolset: str, environ: Mapping[str, str] = ENVIRON
) -> Iterator[str]:
    """Yield a line about the variables that are set: that they are read, or when they
    would be.
    """
    names = ", ".join(name for name in VARIABLES if environ.get(name))
    if names and toolset == LOCAL_AGENT:
        yield f"read where no setting says otherwise: {names}"
    elif names:
        yield f"not read: {names}; they count with vnc_toolset = {LOCAL_AGENT}"


def strongest_value(field: str, layers: Sequence[Layer]) -> object:
    """Return the value of a setting in the last layer that has one; None without."""
    for layer, _ in reversed(layers):
        value = layer.get(field)
        if value is not None:
            return value
    return None
