"""Commands of the pages that a newcomer types, for tests that type them, too."""

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
ON_CLUSTER, ON_KIND = 0, 1
"""Blocks of commands of docs/install.md, in their order."""


def commands(page: Path, section: str, block: int = ON_CLUSTER) -> list[str]:
    """Commands of a block of a section, without comments."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text().split(section, 1)[1], re.S)
    return [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in blocks[block].splitlines()]


def words_of(program: str, verb: str, block: int = ON_KIND) -> list[str]:
    """Words that the page has after a program, beginning with the verb, up to the end of its command.

    Files of the repository are named by their place here. Raises LookupError if the page has no such command.
    """
    for line in commands(DOCS / "install.md", "# Install", block):
        for command in line.split(" && "):
            name, *words = shlex.split(command)
            if Path(name).name == program and words[:1] == [verb]:
                return [str(DOCS.parent / one) if one.startswith("docs/") else one for one in words]
    raise LookupError(f"docs/install.md has no {program} {verb}")
