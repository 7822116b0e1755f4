"""ClaimView: claim and quota statuses to be written and claims to be created, by the snapshot. Writes nothing."""

from collections.abc import Iterator

from ullage.decide.claims.quota_status import quota_statuses
from ullage.decide.claims.scheduler_feedback import SchedulerFeedback
from ullage.decide.claims.status import claim_status, is_for_others_to_say, says
from ullage.decide.claims.work_items import ClaimWorkItem, ClaimWorkKind, about_claim, about_quotas
from ullage.decide.placement.engine import device_ask
from ullage.decide.placement.prefilter import last_user_of, owner_of, with_claim
from ullage.decide.placement.quota import QuotaTable, least_taken
from ullage.model.claim import Claim, copy_key
from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateClaimFromTemplate
from ullage.model.lifecycles import CLAIM
from ullage.model.pod import Pod
from ullage.model.quota import QuotaUsage
from ullage.state.snapshot import ClusterSnapshot


class ClaimView:
    """Reads the scheduler's snapshot and the scheduler feedback."""

    def __init__(
        self, snapshot: ClusterSnapshot, said: SchedulerFeedback, names: frozenset[str], quotas: QuotaTable
    ) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._said = said
        self._names = names
        self._quotas = quotas

    def everything(self) -> Iterator[ClaimWorkItem]:
        """Work items for all claims, pods with a template, and namespaces with quotas."""
        for key in self._state.claims:
            yield from about_claim(key)
        for pod in self._state.pods.values():
            if pod.claim_template:
                yield ClaimWorkItem(ClaimWorkKind.COPY, pod.key)
        yield from map(about_quotas, self.limited())

    def desired_status(self, claim: Claim) -> ClaimStatus:
        """Status that the claim should have."""
        pod = last_user_of(claim.key, self._snapshot)
        if pod is None:
            return claim_status(claim, None, template=self._state.is_template(claim.key))
        return claim_status(
            claim,
            pod,
            reserved=self._said.reserved_for(pod),
            refusal=self._said.refusal_of(pod),
            ours=pod.scheduler in self._names,
        )

    def to_be_said(self, claim: Claim) -> ClaimStatus | None:
        """Status to be written; None if the claim has it already, or another scheduler is to write it.

        Raises IllegalTransition for a phase that the lifecycle of claims does not lead to.
        """
        desired = self.desired_status(claim)
        if says(claim, desired) or is_for_others_to_say(claim, desired):
            return None
        CLAIM.advance(str(claim.key), claim.phase, desired.phase)
        return desired

    def protection_missing(self, claim: Claim) -> bool | None:
        """True if the claim is to be protected, False if it no longer is, None if its protection is right.

        A claim is protected from its first pod on, placed or not. One being deleted stays so only for a placed pod.
        """
        owner = owner_of(claim.key, self._snapshot)
        used = owner is not None and (not claim.deleting or owner.key in self._snapshot.pods)
        if claim.protected:
            return None if used else False
        return True if used and not claim.deleting else None

    def copy_wanted(self, key: ObjectKey) -> CreateClaimFromTemplate | None:
        """The claim to be created for a pod of ours that names an existing template and has no claim yet."""
        pod = self._state.pods.get(key)
        if pod is None or not pod.claim_template or pod.claim or not pod.uid or pod.scheduler not in self._names:
            return None
        template = self._state.claims.get(ObjectKey(key.namespace, pod.claim_template))
        going = pod.deleting or pod.phase.over
        if going or template is None or copy_key(key, pod.uid) in self._state.claims:
            return None
        return CreateClaimFromTemplate(
            pod=key,
            uid=pod.uid,
            template=template.key.name,
            template_uid=template.uid,
            generation=template.generation,
        )

    def pods_asking_through(self, claim: ObjectKey) -> list[Pod]:
        """Every pod that asks for GPUs through this claim: as its own claim, its copy, or its template."""
        named = [*self._state.pods_naming(claim), *self._state.pods_from_template(claim)]
        known = self._state.claims.get(claim)
        maker = None if known is None or not known.pod else self._state.pods.get(ObjectKey(claim.namespace, known.pod))
        return named if maker is None else [*named, maker]

    def limited(self) -> list[str]:
        """Namespaces that have quotas, sorted by name."""
        return sorted({key.namespace for key in self._state.quotas})

    def is_limited(self, namespace: str) -> bool:
        return any(key.namespace == namespace for key in self._state.quotas)

    def quota_statuses(self, namespace: str) -> list[QuotaStatus]:
        """Status of every quota of a namespace."""
        quotas = [self._state.quotas[key] for key in sorted(self._state.quotas) if key.namespace == namespace]
        if not quotas:
            return []
        return quota_statuses(quotas, self._quotas.usage(namespace), self._waiting_for_quota(namespace))

    def has_intentions(self, namespace: str) -> bool:
        """True if pods of a namespace are assumed on nodes and not bound, as far as is known."""
        return self._snapshot.has_intentions(namespace)

    def _waiting_for_quota(self, namespace: str) -> dict[ObjectKey, QuotaUsage]:
        """Pods refused for quota, each with the least it would take."""
        waiting: dict[ObjectKey, QuotaUsage] = {}
        for key in self._said.over_quota(namespace):
            pod = self._state.pods.get(key)
            asking = None if pod is None else with_claim(pod, self._snapshot)
            ask = device_ask(asking) if isinstance(asking, Pod) else None
            if ask is not None:
                waiting[key] = least_taken(ask)
        return waiting
