"""Elements on the screen, each with a name, a role and a box, and the function that lists them for a model."""

from __future__ import annotations

from collections.abc import Callable

from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types.elements import Element as Element

MOST_NAME = 200
"""The most characters of a name that a model gets."""
MOST_READ = 10_000
"""The most characters of a name that are read for a step. Once secrets are removed, it is cut shorter."""
MOST_ELEMENTS = 150
Size = tuple[int, int]


def same_size(width: int, height: int) -> Size:
    """Return the size as it is, for a model whose coordinates are the screen's pixels."""
    return width, height


def elements_function(
    look: Callable[[], tuple[list[Element], Size]], model_size: Callable[[int, int], Size] = same_size
) -> Callable[[], str]:
    """Return `list_elements()` for a model.

    `look` returns the elements and the screen's size in pixels, or raises DesktopError. `model_size` turns the screen's
    width and height into those of the model's own coordinates, such as 1000 and 1000.
    """

    def list_elements() -> str:
        """List the elements in view: number, role, name, point to click, [left, top, right, bottom], as you count."""
        try:
            found, screen = look()
        except DesktopError as exc:
            return f"no list of elements is available here: {' '.join(str(exc).split())}"
        size = model_size(*screen)
        units = size[0] / screen[0], size[1] / screen[1]
        lines = [f"{number}. {_line(each, *units)}" for number, each in enumerate(found[:MOST_ELEMENTS], start=1)]
        more = [f"… and {len(found) - MOST_ELEMENTS} more"] if len(found) > MOST_ELEMENTS else []
        return "\n".join([*lines, *more]) or "there are no elements in view"

    return list_elements


def cut(text: str, most: int) -> str:
    """Return the text, or its beginning and the number of characters that follow."""
    return text if len(text) <= most else f"{text[:most]} … and {len(text) - most} characters more"


def _line(element: Element, x_unit: float, y_unit: float) -> str:
    box = element.box
    corners = [*_scaled((box.left, box.top), x_unit, y_unit), *_scaled((box.right, box.bottom), x_unit, y_unit)]
    return f"{element.role} {cut(element.name, MOST_NAME)!r} at {_scaled(element.centre, x_unit, y_unit)}, {corners}"


def _scaled(point: tuple[int, int], x_unit: float, y_unit: float) -> tuple[int, int]:
    return int(point[0] * x_unit), int(point[1] * y_unit)
