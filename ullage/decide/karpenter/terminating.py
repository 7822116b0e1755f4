"""Smart pods that were deleted and do not go. Measured by our own clock: the API server's may be an hour off."""

from collections.abc import Iterator

from ullage.decide.karpenter.handover import release_again
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.intents import DeleteSmartPod
from ullage.model.karpenter import SmartPod
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Instant, Seconds, after


class TerminatingSmartPods:
    """Instants since which smart pods are observed as terminating. Forgotten on restart: the patience begins anew."""

    def __init__(self, policy: KarpenterPolicy) -> None:
        self._policy = policy
        self._since: dict[str, Instant] = {}
        """By uid."""

    def observe(self, pod: SmartPod, *, gone: bool, now: Instant) -> None:
        """Note that a smart pod is terminating, or gone."""
        if gone:
            self._since.pop(pod.uid, None)
        elif pod.deleting:
            self._since.setdefault(pod.uid, Instant(now))

    def next_intents(self, pod: SmartPod, wake_at: list[Instant], *, now: Instant) -> Iterator[DeleteSmartPod]:
        """Delete at once a smart pod whose kubelet does not confirm: its node is dead or gone. Else add to `wake_at`.

        While it is there its request cannot be made again, and Karpenter may buy for it.
        """
        if pod.uid not in self._since:
            return  # deleted a moment ago, and not observed so yet
        # A clock that was set back must not make it wait for as long.
        since = self._since[pod.uid] = min(self._since[pod.uid], Instant(now))
        ends = after(since, Seconds(pod.grace_period + self._policy.deadlines[S.HANDED_OVER]))
        if now < ends:
            wake_at.append(ends)
        else:
            yield release_again(pod, f"smart pod {pod.key} was deleted and does not go")
