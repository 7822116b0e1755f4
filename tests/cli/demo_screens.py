"""Makes the pictures of the README from a run of the demo: `python -m tests.cli.demo_screens docs/images`.

The dashboard is photographed in Chromium while the demo runs; the terminal's view is drawn by the same code, in virtual
time, at the same moment of the story.
"""

import asyncio
import io
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from time import sleep

import structlog
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from tests.cli.demo_process import running_demo
from ullage.sim.demo import terminal_model
from ullage.sim.demo.captions import CaptionFeed
from ullage.sim.demo.cluster import play, staged
from ullage.sim.demo.gpu_map import Palette
from ullage.sim.demo.informers import TerminalInformers
from ullage.sim.demo.screen import Addresses, Frame
from ullage.sim.demo.tour import TOUR
from ullage.sim.virtual_time import run_virtual

MOMENT_SECONDS = 1462.0
"""Services run, a GPU has died, and nodes that nobody needs any more are being drained."""
CHROMIUM = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_WHITE = (222, 226, 234)
_THEME = TerminalTheme(
    (24, 26, 31),
    _WHITE,
    [
        (40, 44, 52),
        (235, 111, 111),
        (126, 196, 121),
        (232, 190, 99),
        (110, 160, 240),
        (198, 132, 230),
        (86, 194, 205),
        _WHITE,
    ],
)
ADDRESSES = Addresses(
    dashboard="http://127.0.0.1:40219/",
    kubeconfig="/tmp/ullage-demo-x1/kubeconfig",
    example="/tmp/ullage-demo-x1/claim.yaml",
)


def main(folder: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    draw_terminal(folder / "demo-terminal.svg")
    photograph_dashboard(folder)


def draw_terminal(target: Path) -> None:
    console = Console(width=128, height=37, record=True, file=io.StringIO(), color_system="truecolor")

    async def live() -> None:
        async with staged(TOUR, 1) as world:
            programme = CaptionFeed(TOUR)
            began = world.clock.now() - world.elapsed
            watching = TerminalInformers(world.api, world.clock, programme.record, seed=1, began=began)
            beside = [asyncio.ensure_future(watching.run()), asyncio.ensure_future(play(world, programme))]
            await world.sleep_until(MOMENT_SECONDS)
            now = world.clock.now()
            console.print(
                Frame(
                    programme=programme,
                    pools=terminal_model.pools(watching.terminal, now),
                    waiting=terminal_model.waiting(watching.terminal, now),
                    elapsed=world.elapsed,
                    speed=30,
                    addresses=ADDRESSES,
                    palette=Palette(),
                )
            )
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    run_virtual(live())
    # Fonts from elsewhere would be fetched by whoever looks at the picture.
    target.write_text(_FONTS.sub("", console.export_svg(title="ullage demo", theme=_THEME)))


def photograph_dashboard(folder: Path) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_demo(Path(temporary), "--no-browser") as demo,
        sync_playwright() as play_browser,
    ):
        url = demo.wait_for(r"^dashboard: (\S+)$")[1]
        browser = play_browser.chromium.launch(executable_path=program, args=list(CHROMIUM))
        pages = {}
        for scheme, name in (("light", "demo-dashboard.png"), ("dark", "demo-dashboard-dark.png")):
            pages[name] = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]  # two words of several
            pages[name].goto(url)
        demo.wait_for(r"GpuUnhealthy", seconds=150)
        sleep(0.8)
        for name, page in pages.items():
            page.screenshot(path=folder / name)
        browser.close()
        demo.stop(signal.SIGINT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
