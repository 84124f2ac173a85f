"""What axe finds on the pages of docs/: light and dark, on a phone and on a wide screen. About 90 s. Run as a script:

python tests/bench/docs_axe.py

It builds the pages, opens each in Chromium, and ends with 1 if axe finds anything or a page is wider than its screen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
PATH = "pytest-vnc-use"  # of the address in mkdocs.yml: the page for what is not found names its styles by it
WIDTHS = (360, 1600)
READY = "document.readyState == 'complete' && document.querySelector('.md-search').hasAttribute('aria-label')"


class Quiet(SimpleHTTPRequestHandler):
    """Serves the pages and prints no line a file."""

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        built = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", f"{folder}/{PATH}"]
        subprocess.run(built, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            found, pages = look(f"http://127.0.0.1:{server.server_port}/", Path(folder))
            server.shutdown()
    print(f"{pages} pages, {found} problems")
    return 1 if found else 0


def look(address: str, folder: Path) -> tuple[int, int]:
    """Return how many problems were found, and on how many pages axe looked."""
    found = pages = 0
    with sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                for file in sorted(folder.rglob("*.html")):
                    page.goto(address + file.relative_to(folder).as_posix())
                    page.wait_for_function(READY)
                    for problem in problems(page):
                        print(scheme, width, file.relative_to(folder), problem)
                        found += 1
                    pages += 1
                page.close()
        browser.close()
    return found, pages


def problems(page: Any) -> list[str]:
    """Return what axe says of a page, and by how many pixels it is wider than the screen."""
    said = [f"{each['id']}: {each['nodes'][0]['html'][:100]}" for each in Axe().run(page).response["violations"]]
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*said, f"{wider} pixels too wide"] if wider > 0 else said


if __name__ == "__main__":
    sys.exit(main())
