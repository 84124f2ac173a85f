"""Print the licence of each package that pytest-vnc-use brings along, with all its
extras that users install.

Ends with 1 where a licence is unknown, or is one that a user's program would have to
take over.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("anthropic", "container", "mcp", "ocr", "openai", "playwright", "ui")
"""The extras that belong to a user's tests. `demo`, `test` and `dev` are for those who
work on the project.
"""
CHOSEN = {"text-unidecode": "Artistic License"}
"""The licences of packages that offer several. pytest-playwright brings this one, by
python-slugify.
"""
COPYLEFT = re.compile(r"\bA?GPL|(?<!Lesser )General Public", re.IGNORECASE)


def needed(
    name: str, extras: tuple[str, ...] = (), seen: dict[str, Distribution] | None = None
) -> dict[str, Distribution]:
    """Return the installed packages that a package needs, by name, with itself."""
    seen, name = {} if seen is None else seen, canonicalize_name(name)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        # not for this Python or system, or an extra that is not installed
        return seen
    seen[name] = found
    for requirement in map(Requirement, found.requires or ()):
        marker = requirement.marker
        wanted = marker is None or any(
            marker.evaluate({"extra": each}) for each in ("", *extras)
        )
        if wanted and canonicalize_name(requirement.name) not in seen:
            needed(requirement.name, tuple(requirement.extras), seen)
    return seen


def licence(package: Distribution) -> str:
    """Return the licence as the package names it: by SPDX, by a classifier, or by the
    first line of its text.
    """
    known = package.metadata
    named = [
        each.rpartition(" :: ")[2]
        for each in known.get_all("Classifier") or ()
        if each.startswith("License")
    ]
    text = str(known.get("License") or "").strip()
    return str(
        known.get("License-Expression") or ", ".join(named) or text.partition("\n")[0]
    )


def problems(packages: dict[str, Distribution]) -> Iterator[str]:
    """Print a line for each package, and yield those that need a look."""
    for name, package in sorted(packages.items()):
        found = licence(package)
        print(f"{name:28} {package.version:14} {found}")
        is_chosen = name in CHOSEN and CHOSEN[name] in found
        if not found or (COPYLEFT.search(found) and not is_chosen):
            yield f"{name}: {found or 'no licence is named'}"


if __name__ == "__main__":
    wrong = list(problems(needed("pytest-vnc-use", EXTRAS)))
    sys.exit("\n".join(["to be looked at:", *wrong]) if wrong else 0)
