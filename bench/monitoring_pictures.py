"""Pictures of the Grafana dashboard's and the alerts' queries over a simulated week, for the documentation.

`python -m bench.monitoring_pictures docs/images`. A real Prometheus (Debian's package `prometheus`, with promtool)
holds the recorded series and evaluates every query; nothing is evaluated here. Each picture names the queries it
shows, so that a test can tell when one is out of date.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.line_chart import Chart, Line, Strip, charts_sheet, strips_sheet
from bench.monitoring_week import DAY, recorded, write_openmetrics
from ullage.deploy.monitoring import ALERTS, PANELS
from ullage.errors import UserError
from ullage.observe.log import configure
from ullage.sim.virtual_time import EPOCH
from ullage.testing.controlplane.ports import reserve_port

STEP_SECONDS = 1800
ALERT_STEP_SECONDS = 300
DASHBOARD, ALERTS_PICTURE = "monitoring-dashboard.svg", "monitoring-alerts.svg"


@dataclass(frozen=True, slots=True)
class Series:
    """One line of an answer."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


def fingerprint() -> str:
    """Changes with any query of a graph or an alert."""
    said = [(panel.title, list(panel.queries)) for panel in PANELS]
    said_alerts = [(one.name, one.expression, one.minutes) for one in ALERTS]
    return hashlib.sha256(json.dumps([said, said_alerts]).encode()).hexdigest()[:16]


def wanted_metrics() -> set[str]:
    """Names of all metrics that queries use."""
    texts = [query for panel in PANELS for query, _ in panel.queries] + [one.expression for one in ALERTS]
    return {name for text in texts for name in re.findall(r"\b(?:ullage|tensor_fusion)_[a-z_]+", text)}


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, query: str, days: int, step: int) -> list[Series]:
        """Values of a query over the whole time."""
        given = {"query": query, "start": EPOCH + 600, "end": EPOCH + days * DAY, "step": step}
        url = f"http://{self._address}/api/v1/query_range?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            body = json.load(answer)
        return [
            Series(one["metric"], [(float(at) - EPOCH, float(value)) for at, value in one["values"] if value != "NaN"])
            for one in body["data"]["result"]
        ]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UserError(f"no {name} on PATH; install Debian's package prometheus")
    return found


@contextmanager
def prometheus(folder: Path, days: int) -> Iterator[Prometheus]:
    """A Prometheus on loopback with the recorded week."""
    wanted = wanted_metrics()
    text, blocks, config = folder / "week.txt", folder / "data", folder / "prometheus.yml"
    write_openmetrics(text, recorded(days), lambda name: name in wanted)
    config.write_text("{}\n")
    make = (_program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks))
    subprocess.run(make, check=True, capture_output=True)
    port = reserve_port()
    address = f"127.0.0.1:{port.port}"
    port.release()
    command = (
        _program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={blocks}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        "--log.level=error",
    )
    process = subprocess.Popen(command)
    try:
        _wait_ready(address)
        yield Prometheus(address)
    finally:
        process.terminate()
        process.wait(30)


def _wait_ready(address: str) -> None:
    ends = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=2):
                return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def _legend(pattern: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern).strip()


def charts(server: Prometheus, days: int) -> list[Chart]:
    """Graphs of the dashboard."""
    found = []
    for panel in PANELS:
        lines = [
            Line(_legend(legend, one.labels), one.points)
            for query, legend in panel.queries
            for one in server.ask(query, days, STEP_SECONDS)
        ]
        found.append(Chart(panel.title, panel.unit, sorted(lines, key=lambda one: one.name)))
    return found


def strips(server: Prometheus, days: int) -> list[Strip]:
    """Times at which an alert's query had held for long enough."""
    found = []
    for alert in ALERTS:
        held: set[float] = set()
        for one in server.ask(alert.expression, days, ALERT_STEP_SECONDS):
            held |= _held_for([at for at, _ in one.points], alert.minutes * 60)
        found.append(Strip(alert.name, alert.severity, sorted(held), ALERT_STEP_SECONDS))
    return found


def _held_for(moments: Sequence[float], seconds: float) -> set[float]:
    """Moments whose query has had a result without a gap for so many seconds."""
    found, began, before = set(), 0.0, float("-inf")
    for at in moments:
        if at - before > ALERT_STEP_SECONDS * 1.5:
            began = at
        if at - began >= seconds:
            found.add(at)
        before = at
    return found


def main(arguments: Sequence[str]) -> int:
    """Write both pictures."""
    parser = argparse.ArgumentParser(prog="python -m bench.monitoring_pictures")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=7)
    options = parser.parse_args(arguments)
    configure(level="error")
    with tempfile.TemporaryDirectory() as scratch, prometheus(Path(scratch), options.days) as server:
        note = f"queries {fingerprint()}"
        drawn = charts(server, options.days)
        (options.folder / DASHBOARD).write_text(charts_sheet(drawn, options.days * DAY, note))
        firing = strips(server, options.days)
        (options.folder / ALERTS_PICTURE).write_text(strips_sheet(firing, options.days * DAY, note))
    for chart in drawn:
        print(f"{chart.title}: {len(chart.lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
