"""The settings file of a running process: followed, taken over or refused, and told in log, metric and Event."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from ullage.config.loading import read_settings
from ullage.config.settings import Settings
from ullage.control.settings_reload import SettingsReloader
from ullage.errors import UserError
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.observe.settings_metrics import SettingsMetrics

LEASE = ObjectReference("Lease", ObjectKey("ullage-system", "ullage-controller"))


@dataclass
class Program:
    """Stands for the loops."""

    taken: list[Settings] = field(default_factory=list)
    events: list[EventMessage] = field(default_factory=list)

    def configure(self, settings: Settings) -> None:
        self.taken.append(settings)

    def announce(self, message: EventMessage) -> None:
        self.events.append(message)


def read(text: str) -> Settings:
    return read_settings(text, "settings.yaml")


class Place:
    """A file, and the process that follows it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file = folder / "settings.yaml"
        self.file.write_text(text)
        self.registry = CollectorRegistry()
        self.program = Program()
        self.reloader = SettingsReloader(str(self.file), read(text), read, LEASE, SettingsMetrics(self.registry))
        self.reloader.program = self.program

    def polled(self, times: int = 2) -> None:
        for _ in range(times):
            self.reloader.observe(self.reloader._text())

    def metric(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(f"ullage_settings_{name}", labels)
        assert value is not None
        return value


def test_a_changed_file_is_taken_over_and_told(tmp_path: Path) -> None:
    place = Place(tmp_path, "draining: {scanInterval: 5s}\n")
    place.file.write_text("draining: {scanInterval: 9s}\nscheduling: {leaseNamespace: gpus}\n")
    place.polled()
    assert [one.draining.scan_interval for one in place.program.taken] == [9.0]
    assert place.program.taken[0].scheduling.lease_namespace == "ullage-system", "that needs a restart"
    assert [(one.reason, one.note) for one in place.program.events] == [
        (
            EventReason.SETTINGS_RELOADED,
            "draining.scanInterval: 5s -> 9s; waiting for a restart: scheduling.leaseNamespace",
        )
    ]
    assert (place.metric("reloads_total", result="applied"), place.metric("restart_needed")) == (1, 1)
    place.polled(5)
    assert len(place.program.taken) == 1, "once"


def test_a_bad_file_changes_nothing_and_is_named_by_its_field(tmp_path: Path) -> None:
    place = Place(tmp_path, "draining: {scanInterval: 5s}\n")
    place.file.write_text("draining: {scanInterval: soon, maxSoftTaintsPerLoop: 3}\n")
    place.polled(4)
    assert place.program.taken == []
    assert place.reloader.settings.draining.max_soft_taints_per_loop == 50
    (event,) = place.program.events
    assert event.reason is EventReason.SETTINGS_REFUSED
    assert event.note.startswith("settings.yaml:1: draining.scanInterval: is 'soon'; allowed: a time")
    assert (place.metric("reloads_total", result="refused"), place.metric("last_reload_successful")) == (1, 0)
    place.file.write_text("draining: {scanInterval: 6s}\n")
    place.polled()
    assert place.reloader.settings.draining.scan_interval == 6.0
    assert place.metric("last_reload_successful") == 1


def test_half_a_write_is_waited_out(tmp_path: Path) -> None:
    place = Place(tmp_path, "draining: {scanInterval: 5s, minNodesTotal: 3}\n")
    place.file.write_text("")
    place.polled(1)
    place.file.write_text("draining: {scanInterval: 7s, minNodesTotal: 3}\n")
    place.polled(1)
    assert place.program.taken == [], "an empty file would have lifted the minimum"
    place.polled(1)
    assert [(one.draining.scan_interval, one.draining.min_nodes_total) for one in place.program.taken] == [(7.0, 3)]


def test_a_file_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    text = "draining: {scanInterval: 5s}\n"
    place = Place(tmp_path, text)
    place.file.unlink()
    place.polled(3)
    assert [one.reason for one in place.program.events] == [EventReason.SETTINGS_REFUSED]
    assert "no such file" in place.program.events[0].note
    place.file.write_text(text)
    place.polled()
    assert place.metric("last_reload_successful") == 1


def test_a_mounted_config_map_is_swapped_by_a_link(tmp_path: Path) -> None:
    for version, interval in (("..1", "5s"), ("..2", "8s")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "settings.yaml").write_text(f"draining: {{scanInterval: {interval}}}\n")
    (tmp_path / "..data").symlink_to("..1")
    place = Place(tmp_path / "..data", "draining: {scanInterval: 5s}\n")
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    place.polled()
    assert place.reloader.settings.draining.scan_interval == 8.0


def test_between_two_terms_the_next_one_begins_with_the_new_settings(tmp_path: Path) -> None:
    place = Place(tmp_path, "")
    place.reloader.program = None
    place.file.write_text("draining: {scanInterval: 9s}\n")
    place.polled()
    assert place.reloader.settings.draining.scan_interval == 9.0


def test_what_a_reader_refuses_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, "")

    def refuse(text: str) -> Settings:
        raise UserError(f"{text.strip()} is for simulations")

    place.reloader._read = refuse
    place.file.write_text("random\n")
    place.polled()
    assert [one.note for one in place.program.events] == ["random is for simulations; the settings in force stay"]


@pytest.mark.parametrize(
    "changed", ["# a comment\ndraining: {scanInterval: 5s}\n", "draining:\n  scanInterval: 5000ms\n"]
)
def test_another_text_with_the_same_meaning_is_no_change(tmp_path: Path, changed: str) -> None:
    place = Place(tmp_path, "draining: {scanInterval: 5s}\n")
    place.file.write_text(changed)
    place.polled()
    assert [one.note for one in place.program.events] == ["no setting differs"]
