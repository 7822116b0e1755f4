"""Stories told with kubectl, step by step, to two servers at once; what each says is kept to be compared."""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.sim.http.kubectl import Kubectl, Said


@dataclass(frozen=True)
class Step:
    """One command. `{ns}` is the namespace of the story; `prose` is what a server explains in words of its own."""

    words: tuple[str, ...]
    stdin: str = ""
    prose: bool = False

    def __str__(self) -> str:
        return " ".join(self.words)[:60]


def step(text: str, stdin: str = "", *more: str, prose: bool = False) -> Step:
    """From a command line without quotes; words with spaces in them follow."""
    return Step((*text.split(), *more), stdin, prose)


Story = Sequence[Step]


@dataclass(frozen=True)
class Heard:
    """What both servers let kubectl say, by step."""

    real: Sequence[Said]
    simulated: Sequence[Said]


def tell(story: Story, real: Kubectl, simulated: Kubectl) -> Heard:
    """To both at the same time, each in a namespace of its own but of the same name."""
    namespace = f"told-{secrets.token_hex(4)}"
    with ThreadPoolExecutor(2) as both:
        first = both.submit(_tell, story, real, namespace)
        second = both.submit(_tell, story, simulated, namespace)
        return Heard(first.result(), second.result())


def _tell(story: Story, kubectl: Kubectl, namespace: str) -> list[Said]:
    kubectl.run("create", "namespace", namespace)
    try:
        return [_say(one, kubectl, namespace) for one in story]
    finally:
        kubectl.run("delete", "namespace", namespace, "--wait=false")


def _say(one: Step, kubectl: Kubectl, namespace: str) -> Said:
    words = [word.replace("{ns}", namespace) for word in one.words]
    return kubectl.run("--namespace", namespace, *words, stdin=one.stdin.replace("{ns}", namespace))


def without_prose(text: str) -> str:
    """What is between a description's title and the fields that follow."""
    head, found, rest = text.partition("DESCRIPTION:")
    return head + rest[rest.index("FIELDS:") :] if found and "FIELDS:" in rest else text


def compare(one: Step, real: Said, simulated: Said, clean: Callable[[str], str] = lambda text: text) -> None:
    """Both said the same, but for what differs from run to run."""
    said, wanted = simulated.comparable(), real.comparable()
    if one.prose:
        said, wanted = without_prose(said), without_prose(wanted)
    assert clean(said) == clean(wanted)


def kubectl_for(kubeconfig: Path, folder: Path) -> Kubectl:
    folder.mkdir(exist_ok=True)
    return Kubectl(kubeconfig, folder)
