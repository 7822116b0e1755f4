"""`ullage demo` on terminals: keys, and that it tells everything where there are no colours, no width and no cursor."""

import signal
from pathlib import Path
from time import sleep

import pytest

from tests.cli.demo_process import running_demo
from tests.cli.demo_terminal import demo_on_terminal
from ullage.cli.demo_keyboard import keys_of


def test_keys_pause_step_change_the_speed_act_and_go_back(tmp_path: Path) -> None:
    with demo_on_terminal(tmp_path) as demo:
        demo.wait_for(r"space pause and go on.*q quit")
        before = demo.modes()
        demo.press(" ")
        demo.wait_for(r"simulated, paused")
        demo.press("+")
        demo.wait_for(r"Faster 60 times as fast")
        demo.press("s")
        demo.wait_for(r"simulated, 60 times as fast")
        demo.wait_for(r"simulated, paused")
        demo.press("\x1b[D\x1b[C")  # arrows: no keys of ours, though their last letters are
        demo.wait_for(r"simulated, paused")
        demo.press("drain all the nodes, please")  # a paste
        demo.wait_for(r"simulated, paused")
        sleep(1.0)  # so that the next key is not part of it
        demo.press("g")
        demo.wait_for(r"AddGang gang-1: 2 workers with 8 H100 each")
        assert "DrainNode" not in demo.text
        demo.press("r")
        demo.wait_for(r"00:0\d:\d\d simulated, 60 times as fast")  # it was paused: this is another performance
        assert demo.modes() == before
        demo.press("q")
        demo.wait_for(r"Nothing is left behind\.")
        assert demo.ended() == 0
        assert demo.modes() != before, "the terminal echoes again"
    assert b"\x1b[?1049l" in demo.seen
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_of_forty_columns_that_cannot_be_drawn_on_tells_all_in_lines(tmp_path: Path) -> None:
    with demo_on_terminal(tmp_path, columns=40, TERM="dumb") as demo:
        demo.wait_for(r"^keys: +space pause and go on")
        demo.wait_for(r"\] beginning: Two pools")
        demo.wait_for(r"scheduler\s+Scheduled\s+notebook:\s+to\s+train-a\s+with\s+GPU\s+0")
        demo.press(" ")
        demo.wait_for(r"you Pause: Time stands\s+still\.")
        demo.press("x")
        demo.wait_for(r"^keys: +space pause")
        demo.press("\x03")
        demo.wait_for(r"Nothing is left behind\.")
        assert demo.ended() == 0
    assert b"\x1b" not in demo.seen, "no sequence that this terminal does not know"
    lines = demo.seen.decode().split("\r\n")
    long = [line for line in lines if len(line) > 40 and not line.startswith(("dashboard:", "kubectl:", "try:"))]
    assert long == [long[-1]] if long else True, "only the last word may be longer"
    assert list(tmp_path.iterdir()) == []


def test_without_colours_holders_have_letters(tmp_path: Path) -> None:
    with demo_on_terminal(tmp_path, NO_COLOR="1") as demo:
        # Whose letter is which depends on the moment that the screen shows.
        letter = demo.wait_for(r"\b([A-Z]) fine-tune")[1]
        demo.wait_for(rf"\[[A-Z□✗]{{0,3}}{letter}[A-Z□✗]{{0,3}}\]")  # an NVLink island that it has a part of
        assert demo.ended_by(signal.SIGTERM) == 0
    assert b"\x1b[3" not in demo.seen, "no colour"


def test_a_reader_that_has_seen_enough_ends_it(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--no-browser") as demo:
        demo.wait_for("beginning: Two pools")
        assert demo.process.stdout is not None
        demo.hang_up()
        assert demo.process.wait(timeout=60) == 0
    assert demo.left_behind() == []


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        pytest.param("s", "s", id="a-key"),
        pytest.param("++", "++", id="two-at-once"),
        pytest.param("\x1b[D", "", id="an-arrow"),
        pytest.param("\x1bOC", "", id="an-arrow-of-another-mode"),
        pytest.param("\x1b[A \x1b[B", " ", id="a-key-between-arrows"),
        pytest.param("kubectl get pods", "", id="a-paste"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_what_counts_as_a_key(typed: str, keys: str) -> None:
    assert keys_of(typed) == keys
