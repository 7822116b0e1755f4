"""The real kubectl, run on one server or another, and what it says made comparable."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ullage.testing.controlplane import GoProgram
from ullage.testing.controlplane.binaries import find

PATIENCE_SECONDS = 60
_COMPARABLE = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b"), "TIME"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000"), "TIME"),
    (re.compile(r"""(resourceVersion"?: |Resource Version: +)"?\d+"?"""), r"\1N"),
    (re.compile(r"(?<![\w.:/-])\d+(?:s|m\d*s?|h\d*m?|d\d*h?)(?![\w.:/-])"), "AGE"),
    (re.compile(r"\S*/(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"(LIVE|MERGED)(\S+)\t.*"), r"\1\2"),
    (re.compile(r"https?://(127\.0\.0\.1|localhost):\d+"), "SERVER"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" \n"), "\n"),
)


@dataclass(frozen=True)
class Said:
    """What a run of kubectl ended in."""

    code: int
    out: str
    err: str

    def comparable(self) -> str:
        """Without what differs from run to run: ages, times, identities, the width of columns."""
        text = f"exit {self.code}\n{self.out}{self.err}"
        for pattern, word in _COMPARABLE:
            text = pattern.sub(word, text)
        return text


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig and a cache of its own."""

    kubeconfig: Path
    folder: Path

    def run(self, *arguments: str, stdin: str = "") -> Said:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env=self.environment(),
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def command(self, *arguments: str) -> list[str]:
        return [str(find(GoProgram.KUBECTL)), "--kubeconfig", str(self.kubeconfig), *arguments]

    def environment(self) -> dict[str, str]:
        """Nothing of the user's own configuration."""
        return {
            "HOME": str(self.folder),
            "KUBECACHEDIR": str(self.folder / "cache"),
            "PATH": os.environ.get("PATH", ""),
            "TMPDIR": str(self.folder),
            "EDITOR": "sed -i s/green/blue/",
        }
