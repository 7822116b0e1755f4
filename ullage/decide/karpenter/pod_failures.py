"""Failures on waiting pods that no smart pod tells of: smart pods the API server rejected, and failures out of date."""

from collections.abc import Iterator

from ullage.decide.karpenter.progress import ProgressReader
from ullage.decide.karpenter.retry import SmartPodRetries
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateSmartPod, RecordFailure
from ullage.model.karpenter import WaitingPod
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.pod import Pod
from ullage.model.units import Instant


class PodFailures:
    """Pods with a recorded failure, and rejections that are to be recorded."""

    def __init__(self, reader: ProgressReader, retry: SmartPodRetries) -> None:
        self._reader = reader
        self._retry = retry
        self._recorded: dict[ObjectKey, WaitingPod] = {}
        self._rejected: list[tuple[tuple[WaitingPod, ...], str]] = []

    def observe(self, pod: Pod, *, gone: bool) -> None:
        """Note whether a failure is recorded on the pod."""
        if pod.capacity_failure and not gone:
            self._recorded[pod.key] = WaitingPod(pod.key, pod.uid)
        else:
            self._recorded.pop(pod.key, None)

    def reject(self, intent: CreateSmartPod, detail: str) -> None:
        """Note that the API server rejected the smart pod."""
        self._rejected.append((intent.pods, detail))

    def out_of_date(self) -> Iterator[RecordFailure]:
        """Take the failure off pods that got a node after all."""
        for pod in self._recorded.values():
            if not self._reader.waiting((pod,)):
                yield RecordFailure(pod=pod, failure=None, why=f"{pod.key} waits for no node any more")

    def rejections(self, now: Instant) -> Iterator[RecordFailure]:
        """Record on the waiting pods, once, that the API server rejected their smart pod."""
        rejected, self._rejected = self._rejected, []
        for pods, detail in rejected:
            failure = RequestFailure(FailureReason.REJECTED, detail)
            for request in self._reader.requests_of(self._reader.waiting(pods)):
                known = self._retry.recorded(request)
                written = self._retry.record(request, failure, 1 if known is None else known.attempts + 1, now=now)
                if written is not None:
                    yield written
