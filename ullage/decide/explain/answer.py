"""Answer about a claim, gang, node, pool or quota: one verdict, sentences, and next steps with commands."""

from dataclasses import dataclass

from ullage.decide.explain.pod import PodExplanation
from ullage.decide.explain.proof import ProvedRemedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer about one object."""

    about: str
    """Kind and name, as `explain` takes them."""
    verdict: str
    message: str
    lines: tuple[str, ...] = ()
    """Further sentences."""
    steps: tuple[str, ...] = ()
    remedies: tuple[ProvedRemedy, ...] = ()
    commands: tuple[str, ...] = ()
    """Commands that show more."""


def like_its_pod(about: str, said: PodExplanation, lines: tuple[str, ...], commands: tuple[str, ...]) -> Answer:
    """Answer of an object that waits because its pod does."""
    return Answer(
        about=about,
        verdict=said.reason or str(said.verdict),
        message=f"its pod {said.pod}: {said.message}",
        lines=lines,
        steps=said.steps,
        remedies=said.remedies,
        commands=commands,
    )


def that_wait(count: int) -> str:
    """Number of pods that wait."""
    return "1 pod that waits" if count == 1 else f"{count} pods that wait"


def counted(count: int, noun: str) -> str:
    """Number of things, as `1 node` and `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: list[str], most: int = 5) -> str:
    """First few names, and the number of further ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
