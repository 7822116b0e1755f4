"""Figures in pages: those kept in bench/results, and those that a command in the page prints."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import yaml

from bench import idle_table
from bench.pages import ROOT, SENTENCES, Sentence, Value, pages
from ullage.cli.main import run
from ullage.sim.chaos.story import FaultKind


def test_figures_of_pages_are_those_of_the_results() -> None:
    stale = [path.name for path, text in pages().items() if text != path.read_text()]
    assert not stale, "run: python -m bench.pages"
    assert len(SENTENCES) > 15


def test_a_sentence_is_found_by_its_text_and_mended() -> None:
    one = Sentence("a page", "{} nodes of {}", (Value("mixed", "mixed pods bound"),) * 2)
    assert one.mend("It takes 3 nodes of 1,5.") == "It takes 4000 nodes of 4000."
    with pytest.raises(LookupError, match="0 times"):
        one.mend("It takes nodes.")


def test_the_table_of_idle_processes_is_made_of_the_results() -> None:
    page = (
        f"Before.\n\n{idle_table.HEAD}| scheduler | 99 % | 1 MiB | 0 | 0 |\n| gone | 1 % | 1 MiB | 0 | 0 |\n\nAfter.\n"
    )
    assert idle_table.mend(page) == f"Before.\n\n{idle_table.idle_table()}\nAfter.\n"
    with pytest.raises(LookupError, match="0 times"):
        idle_table.mend("No table.")


@pytest.mark.story
def test_the_headline_of_the_page_is_what_its_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/simulate.md").read_text()
    block = page.split("$ ullage simulate ", 1)[1].split("```", 1)[0]
    command, _, printed = block.partition("\n")
    assert run(["simulate", *shlex.split(command), "-q", "--jobs", "1"]) == 0
    assert_about_equal(capsys.readouterr().out.split("\n\n")[0], printed)


NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def assert_about_equal(found: str, page: str) -> None:
    """The same words, and figures within 10 %: a decision that comes a millisecond earlier makes no page stale."""
    assert NUMBER.sub("#", " ".join(found.split())) == NUMBER.sub("#", " ".join(page.split()))
    figures = [float(one) for one in NUMBER.findall(found)]
    assert figures == pytest.approx([float(one) for one in NUMBER.findall(page)], rel=0.1)


@pytest.mark.parametrize("page", ["docs/kinds.md", "docs/provisioning.md"])
def test_manifests_of_pages_are_those_of_the_examples(page: str) -> None:
    known = [body for path in sorted(ROOT.glob("examples/*/*.yaml")) for body in yaml.safe_load_all(path.read_text())]
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]
    ours = [body for body in shown if isinstance(body, dict) and body.get("apiVersion") == "gpu.scheduling/v1"]
    assert ours
    assert [body["metadata"]["name"] for body in ours if body not in known] == []


def test_links_of_the_readme_and_the_examples_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "examples" / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / Path(target)).exists(), f"{page.name}: {target}"


def test_the_readme_counts_the_kinds_of_faults_there_are() -> None:
    assert f"with {len(FaultKind)} kinds of faults" in (ROOT / "README.md").read_text(), "count them anew"


def test_programs_shown_in_pages_can_import_what_they_name() -> None:
    for page in sorted(ROOT.glob("docs/*.md")):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            for module, names in re.findall(r"^from (ullage[\w.]*) import (.+)$", block, re.MULTILINE):
                for name in names.split(", "):
                    assert has(module, name), f"{page.name}: from {module} import {name}"


def has(module: str, name: str) -> bool:
    """True if a module has this name, or a module of it."""
    found = importlib.import_module(module)
    return hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None
