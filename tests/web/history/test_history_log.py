"""History of the dashboard: what is kept survives restarts, bounds, torn lines, full disks and clocks that jump."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from ullage.errors import UserError
from ullage.web.history.answers import filled, has_holes, what_changed
from ullage.web.history.log import AGE_CHECK_SECONDS, HistoryBounds, HistoryLog
from ullage.web.history.records import HEADER, Change, ChangeSource, FleetSample, PoolSample, QueueSample, written
from ullage.web.history.store import FileStore, HistoryStore, MemoryStore

NOW = 1_767_225_600.0
LARGE = HistoryBounds(1 << 20, 86_400.0)


def log(store: HistoryStore, bounds: HistoryBounds = LARGE) -> HistoryLog:
    return HistoryLog(store, bounds)


def sample(at: float, *, gpus: float = 8.0, width: float = 30.0, **more: object) -> FleetSample:
    return FleetSample(at=at, width=width, gpus=gpus, **more)  # type: ignore[arg-type]


def change(at: float, reason: str = "NodeAdded", **more: object) -> Change:
    return Change(at=at, source=ChangeSource.NODE, reason=reason, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_what_was_at_a_moment(kind: str, tmp_path: Path) -> None:
    store: HistoryStore = FileStore(tmp_path / "h") if kind == "file" else MemoryStore()
    kept = log(store)
    pools = (PoolSample(name="h100", nodes=2, gpus=16, allocated=9.0),)
    queue = (QueueSample(namespace="team", workload="Job/train", reason="TooFewGpus", count=3, gpus=24),)
    kept.append([sample(NOW, pools=pools, queue=queue), change(NOW + 10, about="n1")], now=NOW)
    kept.append([sample(NOW + 30, gpus=16.0), change(NOW + 40, about="n2"), change(NOW + 4000)], now=NOW)
    said = what_changed(kept, NOW + 20, 60.0)
    assert said.sample is not None
    assert (said.sample.pools, said.sample.queue) == (pools, queue)
    assert [one.about for one in said.changes] == ["n1", "n2"]
    assert said.counts == {"NodeAdded": 2}
    assert said.more == 0
    assert what_changed(kept, NOW + 35, 60.0).sample == sample(NOW + 30, gpus=16.0)
    assert what_changed(kept, NOW - 5, 60.0).sample is None, "before the beginning nothing is known"
    assert what_changed(kept, NOW + 90_000, 60.0).sample is None, "a sample of yesterday tells nothing of today"


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    first = log(FileStore(tmp_path / "h"))
    first.append([sample(NOW + 30 * number, gpus=float(number)) for number in range(100)], now=NOW)
    first.append([change(NOW + 5, about="n1")], now=NOW)
    before = first.series(NOW, NOW + 3000, 100)
    first.close()
    again = log(FileStore(tmp_path / "h"))
    assert again.notes == []
    assert again.series(NOW, NOW + 3000, 100) == before
    assert [one.about for one in again.changes(NOW, NOW + 10)] == ["n1"]
    assert again.since == NOW


@pytest.mark.parametrize("lost", range(1, 60))
def test_a_torn_last_line_is_cut_off_and_told(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "h"
    first = log(FileStore(path))
    first.append([change(NOW, about="whole"), change(NOW + 1, about="torn")], now=NOW)
    first.close()
    whole = HEADER + written(change(NOW, about="whole"))
    data = path.read_bytes()
    path.write_bytes(data[: max(len(whole) + 1, len(data) - lost)])
    again = log(FileStore(path))
    assert [one.about for one in again.changes(0, 2 * NOW)] == ["whole"]
    assert len(again.notes) == 1
    assert "torn" in again.notes[0]
    again.append([change(NOW + 2, about="next")], now=NOW)
    again.close()
    final = log(FileStore(path))
    assert [one.about for one in final.changes(0, 2 * NOW)] == ["whole", "next"]
    assert final.notes == []


def test_a_line_that_makes_no_sense_is_passed_over_and_told(tmp_path: Path) -> None:
    path = tmp_path / "h"
    lines = [HEADER, written(change(NOW, about="a")), b'\x00\xff{"t":\n', written(change(NOW, about="b"))]
    path.write_bytes(b"".join(lines))
    kept = log(FileStore(path))
    assert [one.about for one in kept.changes(0, 2 * NOW)] == ["a", "b"]
    assert kept.notes == ["lines that cannot be read are passed over: 1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"root:x:0:0\n", "is no ullage-history file", id="another-program's-file"),
        pytest.param(b'{"format":"other","version":1}\n', "is no ullage-history file", id="json-of-another-sort"),
        pytest.param(b"\x00" * 4096, "is no ullage-history file", id="zeros"),
    ],
)
def test_a_file_that_is_no_history_is_refused_and_kept(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        FileStore(path)
    assert path.read_bytes() == content


def test_a_history_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "h"
    other = b'{"format":"ullage-history","version":2}\n{"t":"new"}\n'
    path.write_bytes(other)
    store = FileStore(path)
    assert (tmp_path / "h.v2").read_bytes() == other
    assert store.set_aside.endswith("h.v2")
    kept = log(store)
    kept.append([change(NOW)], now=NOW)
    assert path.read_bytes().startswith(HEADER)


def test_two_processes_cannot_write_to_one_file(tmp_path: Path) -> None:
    first = FileStore(tmp_path / "h")
    with pytest.raises(UserError, match="in use by another process"):
        FileStore(tmp_path / "h")
    first.close()
    FileStore(tmp_path / "h").close()


def test_a_header_cut_off_by_a_full_disk_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(HEADER[:9])
    kept = log(FileStore(path))
    kept.append([change(NOW)], now=NOW)
    assert path.read_bytes() == HEADER + written(change(NOW))


class FullDisk(FileStore):
    """A file on a disk that has room for so many bytes more."""

    room = 10**9

    def append(self, data: bytes) -> None:
        if len(data) > self.room:
            os.pwrite(self._file, data[: self.room], self._size)
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().append(data)


def test_a_full_disk_is_told_and_what_fits_again_is_kept(tmp_path: Path) -> None:
    store = FullDisk(tmp_path / "h")
    kept = log(store)
    kept.append([change(NOW, about="a")], now=NOW)
    store.room = 5
    kept.append([change(NOW + 1, about="b")], now=NOW)
    assert kept.trouble == "No space left on device"
    assert kept.dropped == 1
    store.room = 10**9
    kept.append([change(NOW + 2, about="c")], now=NOW)
    assert kept.trouble == ""
    kept.close()
    again = log(FileStore(tmp_path / "h"))
    assert [one.about for one in again.changes(0, 2 * NOW)] == ["a", "c"]
    assert again.notes == []


def test_a_real_full_disk(tmp_path: Path) -> None:
    """/dev/full refuses every write: nothing is indexed that was not written."""
    store = FileStore(tmp_path / "h")
    kept = log(store)
    mine, store._file = store._file, os.open("/dev/full", os.O_RDWR)
    store.is_ours = lambda: True  # type: ignore[method-assign]
    try:
        with pytest.raises(OSError, match=r"Invalid argument|No space"):
            store.append(b"x")  # a device cannot be cut back either
        kept.append([change(NOW)], now=NOW)
        assert kept.trouble
        assert len(kept) == 0
    finally:
        os.close(store._file)
        store._file = mine
    kept.append([change(NOW)], now=NOW)
    assert (kept.trouble, len(kept)) == ("", 1)


def test_the_size_is_bounded_and_changes_go_before_samples(tmp_path: Path) -> None:
    bounds = HistoryBounds(200_000, 10 * 86_400.0)
    path = tmp_path / "h"
    kept = log(FileStore(path), bounds)
    for number in range(400):
        at = NOW + 30 * number
        kept.append([sample(at), *(change(at, about=f"n{one}", note="x" * 60) for one in range(20))], now=at)
        assert path.stat().st_size <= bounds.max_size
    assert kept.since == NOW, "all samples are still there"
    changes = kept.changes(0, 2 * NOW)
    assert changes[-1].at == NOW + 30 * 399
    assert 200 < len(changes) < 4000
    kept.close()
    again = log(FileStore(path), bounds)
    assert again.changes(0, 2 * NOW) == changes
    assert not (tmp_path / "h.new").exists()


def test_samples_are_bounded_too(tmp_path: Path) -> None:
    bounds = HistoryBounds(50_000, 10 * 86_400.0)
    kept = log(FileStore(tmp_path / "h"), bounds)
    for number in range(3000):
        kept.append([sample(NOW + 30 * number)], now=NOW + 30 * number)
        assert kept.size <= bounds.max_size
    assert kept.since is not None
    assert kept.since > NOW
    newest = what_changed(kept, NOW + 30 * 2999, 1.0).sample
    assert newest == sample(NOW + 30 * 2999)


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    kept = log(FileStore(tmp_path / "h"), HistoryBounds(1 << 20, 7200.0))
    for number in range(500):
        kept.append([sample(NOW + 60 * number)], now=NOW + 60 * number, steady=60.0 * number)
    assert kept.since is not None
    assert kept.since >= NOW + 60 * 499 - 7200.0 - 2 * AGE_CHECK_SECONDS


def test_a_clock_that_jumps_ahead_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """A year ahead, and back: by age everything would be old, but the clock is not believed so soon."""
    year = 365 * 86_400.0
    kept = log(FileStore(tmp_path / "h"), HistoryBounds(1 << 20, 7200.0))
    for minute in range(240):
        ahead = year if 100 <= minute < 150 else 0.0
        kept.append([sample(NOW + 60 * minute + ahead)], now=NOW + 60 * minute + ahead, steady=60.0 * minute)
    assert kept.since is not None
    assert kept.since < NOW + 60 * 200
    assert len(kept.series(NOW, NOW + 240 * 60, 240)) > 60


def test_a_clock_that_jumps_back_hides_nothing(tmp_path: Path) -> None:
    kept = log(FileStore(tmp_path / "h"))
    kept.append([sample(NOW), change(NOW + 5, about="before")], now=NOW)
    kept.append([sample(NOW - 3600), change(NOW - 3595, about="after")], now=NOW - 3600)
    assert [one.about for one in kept.changes(NOW - 4000, NOW + 100)] == ["after", "before"]
    assert [one.at for one in kept.series(NOW - 4000, NOW + 100, 50)] == [NOW - 3600, NOW]


@pytest.mark.parametrize("how", ["removed", "replaced", "shortened"])
def test_a_file_that_somebody_takes_away_is_begun_anew_and_told(how: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    kept = log(FileStore(path))
    kept.append([change(NOW, about="a"), change(NOW, about="b")], now=NOW)
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        (tmp_path / "other").write_bytes(b"something else")
        os.replace(tmp_path / "other", path)
    else:
        os.truncate(path, 60)
    kept.append([change(NOW + 1, about="c")], now=NOW)
    assert kept.trouble == ""
    assert "begun anew" in kept.notes[0]
    assert path.read_bytes() == HEADER + written(change(NOW + 1, about="c"))


def test_repetitions_of_an_event_are_told_once_with_their_time() -> None:
    kept = log(MemoryStore())
    for number in range(5):
        again = change(NOW + 60 * number, "FailedScheduling", key="e1", count=number + 1, first=NOW)
        kept.append([again, change(NOW + 60 * number, "Scheduled", key=f"s{number}")], now=NOW)
    said = what_changed(kept, NOW + 120, 90.0)
    repeated = [one for one in said.changes if one.key == "e1"]
    assert [(one.at, one.count, one.first) for one in repeated] == [(NOW + 180, 4, NOW)]
    assert said.counts == {"Scheduled": 3, "FailedScheduling": 1}


def test_changes_that_are_not_kept_one_by_one_are_counted() -> None:
    kept = log(MemoryStore())
    kept.append([sample(NOW, left_out={"Scheduled": 850}), change(NOW, "Scheduled", about="p")], now=NOW)
    said = what_changed(kept, NOW, 60.0)
    assert (said.counts, said.more) == ({"Scheduled": 851}, 850)


def test_a_long_range_is_merged_by_the_time_each_sample_lasted() -> None:
    kept = log(MemoryStore())
    kept.append([sample(NOW, gpus=10.0, width=10.0), sample(NOW + 10, gpus=40.0, width=20.0)], now=NOW)
    kept.append([sample(NOW + 300, gpus=7.0)], now=NOW)
    merged = kept.series(NOW, NOW + 400, 4)
    assert [(one.at, one.gpus, one.width) for one in merged] == [(NOW, 30.0, 30.0), (NOW + 300, 7.0, 30.0)]


def test_holes_are_filled_by_others_and_own_samples_stay() -> None:
    own = [sample(NOW + 500, gpus=1.0, width=100.0)]
    others = [sample(NOW + 100 * number, gpus=2.0, width=100.0) for number in range(10)]
    assert has_holes(own, NOW, NOW + 1000, 10)
    assert not has_holes([sample(NOW, width=1000.0)], NOW, NOW + 1000, 10)
    found = filled(own, others, NOW, NOW + 1000, 10)
    assert [(one.at - NOW, one.gpus) for one in found if 400 <= one.at - NOW <= 700] == [
        (400.0, 2.0),
        (500.0, 1.0),
        (700.0, 2.0),
    ]


def test_ten_thousand_samples_are_asked_for_in_little_memory() -> None:
    kept = log(MemoryStore(), HistoryBounds(64 << 20, 10**9))
    pools = tuple(PoolSample(name=f"pool-{one}", nodes=5, gpus=40) for one in range(10))
    kept.append([sample(NOW + 30 * number, pools=pools) for number in range(10_000)], now=NOW)
    assert len(msgspec.json.encode(kept.series(NOW, NOW + 300_000, 240))) < 60_000
