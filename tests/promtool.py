"""promtool on series that were recorded from a registry: which alerts would fire."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

EVERY = 15.0
"""Seconds between two scrapes."""


def promtool() -> str:
    """Where promtool is. Without it the test is skipped; in CI that is a failure."""
    path = shutil.which("promtool")
    if path is None:
        missing = "no promtool on PATH (Debian's package prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path


@dataclass
class Recording:
    """Series of one registry, scraped at fixed intervals."""

    scrapes: int = 0
    series: dict[str, list[str]] = field(default_factory=dict)

    def scrape(self, registry: CollectorRegistry) -> None:
        for metric in registry.collect():
            for one in metric.samples:
                if one.name.endswith("_created"):
                    continue
                labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(one.labels.items()))
                values = self.series.setdefault(f"{one.name}{{{labels}}}", ["_"] * self.scrapes)
                values.append(f"{one.value:g}")
        self.scrapes += 1

    def written(self) -> list[dict[str, str]]:
        return [{"series": name, "values": " ".join(values)} for name, values in sorted(self.series.items())]


def silent(alert: str, recording: Recording, folder: Path) -> bool:
    """True if the alert does not fire at the last scrape. Its rules are in `rules.yaml` of the folder."""
    minutes = int(recording.scrapes * EVERY // 60) - 1
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": f"{EVERY:g}s",
                "input_series": recording.written(),
                "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": []}],
            }
        ],
    }
    (folder / f"{alert}.yaml").write_text(yaml.safe_dump(case))
    command = [promtool(), "test", "rules", f"{alert}.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or f'alertname="{alert}"' in said, said
    return done.returncode == 0
