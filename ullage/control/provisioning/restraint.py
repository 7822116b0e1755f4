"""Back-off of deletions: after a failed deletion a cloud is left alone for as long as it asked, or for a while."""

from collections.abc import Iterable

from ullage.decide.provisioning.backoff import after_failure
from ullage.model.outcomes import PoolActionDone, PoolActionFailed, PoolFailure, PoolOutcome
from ullage.model.provisioner import BackOff, CloudFailure


class DeleteRestraint:
    """Back-off per pool; per provider where the cloud itself gave a time, because its limits are those of the account.

    Times are of the monotonic clock. A restart forgets the back-off, and the cloud answers so once more.
    """

    def __init__(self) -> None:
        self._held: dict[str, BackOff] = {}
        self._asked: dict[str, float] = {}

    def seconds(self, pool: str, provider: str, *, steady: float) -> float:
        """Seconds until the next deletion is allowed; 0 if it is allowed now."""
        until = self._held[pool].until if pool in self._held else steady
        return max(0.0, until - steady, self._asked.get(provider, steady) - steady)

    def learn(self, pool: str, provider: str, outcomes: Iterable[PoolOutcome], *, steady: float) -> None:
        """Take in the outcomes of a step."""
        tried = [one for one in outcomes if not _is_our_own_refusal(one)]
        failed = [one for one in tried if isinstance(one, PoolActionFailed)]
        if not failed:
            if tried:
                self._held.pop(pool, None)
            return
        asked = max(one.retry_after for one in failed)
        failure = CloudFailure.THROTTLED if asked else CloudFailure.UNKNOWN
        back_off = after_failure(self._held.get(pool), failure, now=steady, at_least=asked)
        self._held[pool] = back_off
        if asked:
            self._asked[provider] = max(self._asked.get(provider, steady), back_off.until)


def _is_our_own_refusal(outcome: PoolOutcome) -> bool:
    """True if the outcome says nothing about the cloud: our own checks refused, or the API server failed."""
    if isinstance(outcome, PoolActionDone):
        return False
    return not (isinstance(outcome, PoolActionFailed) and outcome.setback is PoolFailure.CLOUD_FAILED)
