"""The variables of LM Studio's agents. They are read for the planner `openai` if no setting names a server.

All of them are used or none, so that the key is sent only to its own server. With OPENAI_API_KEY, `openai` means
OpenAI's own service, and none of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_vnc_use.settings.variables import VARIABLES as ENVIRON

Layer = tuple[Mapping[str, object], Callable[[str], str]]

SERVER, KEY = "LMSTUDIO_BASE_URL", "LMSTUDIO_API_KEY"
VARIABLES = {"base_url": SERVER, "model": "LMSTUDIO_MODEL", "steps": "AGENT_MAX_STEPS"}


def fallback_layer(layers: tuple[Layer, ...], environ: Mapping[str, str] = ENVIRON) -> Layer:
    """Return the layer of these variables, weaker than all of `layers`; empty if they are not used."""
    if not environ.get(SERVER) or environ.get("OPENAI_API_KEY"):
        return {}, str
    if _given("planner", layers) != "openai" or _given("base_url", layers) is not None:
        return {}, str
    found: dict[str, object] = {field: environ[name] for field, name in VARIABLES.items() if environ.get(name)}
    if environ.get(KEY):
        found["api_key_env"] = KEY
    return found, lambda field: VARIABLES.get(field, field)


def fallbacks_in_words(base_url: str, environ: Mapping[str, str] = ENVIRON) -> Iterator[str]:
    """Yield a line about the variables that are set: they are read, or when they would be read."""
    names = ", ".join(name for name in (*VARIABLES.values(), KEY) if environ.get(name))
    if not environ.get(SERVER):
        return
    if base_url == environ[SERVER]:
        yield f"read where no setting says otherwise: {names}"
    else:
        yield f"not read: {names}; they count with --planner=openai, without --base-url and OPENAI_API_KEY"


def _given(field: str, layers: tuple[Layer, ...]) -> object:
    values = (layer.get(field) for layer, _ in reversed(layers))
    return next((value for value in values if value is not None), None)
