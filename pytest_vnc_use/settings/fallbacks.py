"""The settings of a local vision agent. `vnc_toolset = local_agent` alone chooses its
tools, its server, its limits.

Its environment variables are read only then. A setting overrides its variable.
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
"""The variables, with the setting that each one is the default of, if there is one, and
the variable's default.
"""


OPTIONS = {
    "temperature": "LMSTUDIO_TEMPERATURE",
    "max_tokens": "LMSTUDIO_MAX_TOKENS",
    "keep_screenshots": "AGENT_KEEP_LAST_SCREENSHOTS",
    "reasoning_turns": "AGENT_KEEP_LAST_THINKS",
}
"""The options of the planner that a variable is the default of."""


def local_agent_value(name: str, environ: Mapping[str, str] = ENVIRON) -> str:
    """Return the value of one of the variables, or its default."""
    return environ.get(name) or VARIABLES[name][1]


def fallback_layer(
    layers: Sequence[Layer], environ: Mapping[str, str] = ENVIRON
) -> Layer:
    """Return the layer of a local agent, weaker than all of `layers`; empty if they do
    not choose it.
    """
    toolset = strongest_value("toolset", layers)
    planner = strongest_value("planner", layers)
    if toolset != LOCAL_AGENT or planner not in (None, "", "openai"):
        return {}, str
    values: dict[str, object] = {
        field: local_agent_value(name, environ)
        for name, (field, _) in VARIABLES.items()
        if field
    }
    whole_s = None  # of a run that only its steps limit
    with suppress(ValueError):  # what is no number is rejected anyway
        whole_s = str(
            float(str(values["max_steps"]))
            * (float(str(values["request_seconds"])) + 60.0)
        )
    names = {field: name for name, (field, _) in VARIABLES.items()}
    return {
        **values,
        "planner": "openai",
        "max_seconds": whole_s,
    }, lambda field: names.get(field, field)


def format_fallbacks(
    toolset: str, environ: Mapping[str, str] = ENVIRON
) -> Iterator[str]:
    """Yield a line about the variables that are set: they are read, or when they would
    be read.
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
