"""From settings to all else that an agent has: policy, budget, and the functions that a
model may call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from typing import Literal

from pytest_vnc_use.agent.budget import Budget, CostLimits, Ledger, load_prices
from pytest_vnc_use.agent.credentials import desktop_password
from pytest_vnc_use.agent.leasing import connect_to, settings_at
from pytest_vnc_use.agent.providers import (
    counted_in,
    model_of,
    model_that_judges,
    reads_text,
)
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.errors.causes import named
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.fallbacks import (
    Layer,
    fallback_layer,
)
from pytest_vnc_use.settings.layers import environment_layer, merge
from pytest_vnc_use.settings.settings import (
    PLANNERS,
    Settings,
)
from pytest_vnc_use.settings.variables import from_file, use_named_env_file
from pytest_vnc_use.types import Action, Frame
from pytest_vnc_use.types.elements import ASK_S, AskAfter, Element, Elements, ElementsOf
from pytest_vnc_use.types.protocols import (
    Desktop,
)


def settings_of(values: Mapping[str, object], *project: Layer) -> Settings:
    """Return settings from Python keyword arguments over the environment and the file
    that it names.

    Those of a project's configuration are weaker. Raises SettingsError.
    """
    if not from_file:
        use_named_env_file()
    layers: tuple[Layer, ...] = (*project, environment_layer(), (values, str))
    return merge(fallback_layer(layers), *layers)


def build_policy(settings: Settings, *, ask: bool = False) -> Policy:
    """Return the policy file's rules. An undecided action is asked about, or denied
    without an approver.
    """
    unmatched: Literal["ask", "deny"] = "ask" if ask else "deny"
    if not settings.policy:
        return Policy(unmatched=unmatched)
    return load_policy(settings.policy, unmatched=unmatched)


def build_budget(settings: Settings, ledger: Ledger | None = None) -> Budget:
    """Return the budget of a test; with a ledger, of its session too. Raises
    SettingsError for a missing price.
    """
    prices = load_prices(settings.prices)
    judge_model = model_that_judges(settings)
    if settings.max_dollars or settings.session_max_dollars:
        asked = {judge_model}
        if settings.planner in PLANNERS:
            asked.add(model_of(settings))
        for model in asked - {""}:
            prices.check(model)
    test = CostLimits(tokens=settings.max_tokens, dollars=settings.max_dollars)
    session = CostLimits(
        "--vnc-session-max-",
        settings.session_max_steps,
        settings.session_max_seconds,
        settings.session_max_tokens,
        settings.session_max_dollars,
    )
    return Budget(
        prices,
        test,
        session,
        ledger,
        judge_model,
    )


def named_functions(module: str) -> Sequence[Callable[..., object]]:
    """Return the public functions that a module defines, in their order; () for "".
    Raises SettingsError.
    """
    if not module:
        return ()
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as exc:
        # a user's own module may raise anything, and a script exits
        raise SettingsError(
            "vnc_functions must be a module that can be imported (see PYTHONPATH), got"
            f" {module!r}: {named(exc)}"
        ) from exc
    functions = [
        value
        for name, value in vars(imported).items()
        if inspect.isfunction(value)
        and value.__module__ == imported.__name__
        and not name.startswith("_")
    ]
    if not functions:
        raise SettingsError(
            f"vnc_functions must be a module that defines functions, got {module!r}"
        )
    return functions


def desktop_functions(
    settings: Settings, desktop: Desktop
) -> Sequence[Callable[..., object]]:
    """Return the functions that a model may call: those of the module `functions`, and
    those that look at the desktop.

    The latter read the browser's page if `cdp` is set, programs if `elements` is on.
    Raises SettingsError.
    """
    functions = named_functions(settings.functions)
    size = counted_in(settings)
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at, browser_functions

        browser = partial(browser_at, settings.cdp, desktop.read_file)
        return (*functions, *browser_functions(browser, size))
    if settings.elements:
        from pytest_vnc_use.backends.elements import desktop_elements, elements_function

        def elements_in_view() -> tuple[list[Element], tuple[int, int]]:
            server = settings_at(settings, desktop.server)
            password = desktop.password or desktop_password(settings)
            elements = desktop_elements(desktop.run)
            with closing(connect_to(server, server.server, password)) as controller:
                screen = controller.frame().ref
            return elements, (screen.width, screen.height)

        return (*functions, elements_function(elements_in_view, size))
    return functions


def with_text(
    settings: Settings,
    functions: Mapping[str, Callable[..., object]],
    screen: Callable[[], Frame],
) -> Mapping[str, Callable[..., object]]:
    """Return the functions; where text is read for the model, `list_elements` answers
    with that of the screen if no element is listed.
    """
    if not reads_text(settings):
        return functions
    from pytest_vnc_use import ocr
    from pytest_vnc_use.backends.elements import (
        NONE_IN_VIEW,
        NONE_LISTED,
        elements_function,
    )
    from pytest_vnc_use.backends.pixels import pixels_in

    def look() -> tuple[list[Element], tuple[int, int]]:
        frame = screen()
        return ocr.texts_of(pixels_in(frame)), (frame.ref.width, frame.ref.height)

    list_texts = elements_function(look, counted_in(settings))
    list_known = functions.get("list_elements", lambda: NONE_IN_VIEW)

    def list_elements() -> str:
        listed = str(list_known())
        return list_texts() if listed.startswith(NONE_LISTED) else listed

    return {**functions, "list_elements": list_elements}


def elements_asker(settings: Settings, desktop: Desktop) -> ElementsOf:
    """Return the function that finds the elements of an action: in the browser (`cdp`),
    in programs (`elements`).
    """
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at

        def in_browser(action: Action) -> Elements | AskAfter:
            browser = browser_at(
                settings.cdp,
                desktop.read_file,
                wait_s=0,
                timeout_s=ASK_S,
            )
            return browser.acted_on(action)

        return in_browser
    if settings.elements:
        from pytest_vnc_use.backends.elements import acted_on_program

        return partial(acted_on_program, partial(desktop.run, timeout_s=ASK_S))
    # with numpy and Pillow: collecting needs this module, not them
    from pytest_vnc_use.agent.act import no_elements

    return no_elements
