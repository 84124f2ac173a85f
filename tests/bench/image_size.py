"""The size of the image of examples/desktop, and of what it adds to Debian's. Run as a script:

    PYTHONPATH=tests python tests/bench/image_size.py

It builds the image, with Podman. Where no registry can be reached, Debian's image is made here by debootstrap, which is
larger than Debian's own; what the desktop adds to it is the same.
"""

from __future__ import annotations

import datetime
import subprocess

from support.containers import BASE, ENGINE, desktop_image

MOST_MB = 200


def main() -> None:
    whole, base = size_mb(desktop_image()), size_mb(BASE)
    print(f"{datetime.date.today()}, {ENGINE}\n")
    print(f"| | MB |\n|---|---:|\n| {BASE}, as it is here | {base:.0f} |")
    print(f"| the desktop beside it, at most {MOST_MB} | {whole - base:.0f} |\n| together | {whole:.0f} |")


def size_mb(image: str) -> float:
    command = [ENGINE, "image", "inspect", "--format", "{{.Size}}", image]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e6


if __name__ == "__main__":
    main()
