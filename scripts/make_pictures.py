"""Make the pictures of the READMEs: the top of the quickstart report, in both languages, as it looks in a browser.

python scripts/make_pictures.py

The experiment is run with its simulated model in a temporary folder, so the pictures show its marks and watermarks.
Needs Chromium or Chrome; without one nothing is changed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from agentlab.report.page import write_report
from agentlab.runner.experiment import run_experiment

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images"
EXPERIMENT = ROOT / "experiments" / "quickstart.yaml"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH = 1240
HEIGHTS = {"en": 1310, "zh": 1250}
"""Down to the end of the first chart."""
MOST_BYTES = 400_000
COLOURS = 256
TIME_LIMIT_S = 60


def browser() -> str | None:
    """Return the path of an installed browser."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def shoot(program: str, page: Path, picture: Path, height: int) -> None:
    """Write the top of a page as a picture of few colours."""
    with tempfile.TemporaryDirectory(prefix="agentlab-browser-") as profile:
        command = [
            program, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
            f"--window-size={WIDTH},{height}", f"--screenshot={picture}", page.as_uri(),
        ]  # fmt: skip
        # Chromium's sandbox refuses to start for root, as in most containers; the page is our own.
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        subprocess.run(command, check=True, capture_output=True, timeout=TIME_LIMIT_S)
    with Image.open(picture) as image:
        # Median cut would shift the colours of the strategies.
        few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


def main() -> int:
    """Write `docs/images/report.en.png` and `report.zh.png`; return 1 where there is no browser."""
    program = browser()
    if program is None:
        print(f"No browser found ({', '.join(BROWSERS)}); the pictures stay as they are.", file=sys.stderr)
        return 1
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="agentlab-pictures-") as name:
        results = Path(name) / "quickstart"
        run_experiment(EXPERIMENT, out=results, is_quiet=True)
        for language, height in HEIGHTS.items():
            page = write_report(results, language=language).path
            picture = TARGET / f"report.{language}.png"
            shoot(program, page, picture, height)
            size = picture.stat().st_size
            print(f"{picture.relative_to(ROOT)}: {size / 1000:.0f} kB")
            if size > MOST_BYTES:
                raise SystemExit(f"{picture.name} is larger than {MOST_BYTES / 1000:.0f} kB: use fewer colours.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
