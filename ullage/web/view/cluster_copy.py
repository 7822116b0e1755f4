"""Copy of the cluster for questions that take long: it may be asked in another thread while the model goes on. Pure.

A copy is made in milliseconds also of thousands of nodes; what is asked of it takes seconds there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

Suggestion = tuple[str, tuple[str, ...]]
"""One action, with its commands."""
Trial = Callable[[], Suggestion]
RunTrial = Callable[[Trial, Callable[[Suggestion], None]], None]
"""Runs a trial, and tells what came of it: at once, or later in the model's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCopy:
    """The cluster at one moment. The copy belongs to whoever asked for it."""

    snapshot: ClusterSnapshot
    known: PlanInputs
    capacity: KarpenterFacts
    policy: str
    now: Instant
    pending: int
    """Pods that wait."""

    def suggestion(self, pod: Pod) -> Suggestion:
        """First step that `ullage explain` advises for a pod, with its commands."""
        said = explain_pod(self.snapshot, pod, self.known, now=self.now, policy=self.policy)
        if said.remedies:
            best = said.remedies[0].remedy
            return best.sentence, best.commands
        return (said.steps[0] if said.steps else ""), ()


def at_once(trial: Trial, report: Callable[[Suggestion], None]) -> None:
    """Run a trial here and now."""
    report(trial())
