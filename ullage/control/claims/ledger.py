"""What is to be said of claims and quotas, and which claims are to be made, as the picture is now. Writes nothing."""

from collections.abc import Iterator

from ullage.control.claims.hearsay import Hearsay
from ullage.control.claims.news import Errand, Kind, about_quotas
from ullage.decide.claim_status import claim_standing, is_for_others_to_say, says
from ullage.decide.claiming import last_user_of, with_claim
from ullage.decide.quota import QuotaTable, least_taken
from ullage.decide.quota_standing import quota_standings
from ullage.decide.seat.deciding import device_ask
from ullage.model.claim import Claim, copy_key
from ullage.model.copying import CopyClaim
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import Usage
from ullage.model.standing import QuotaStanding, Standing
from ullage.state.placements import Placements


class Ledger:
    """Reads the scheduler's picture, and what was said beside it."""

    def __init__(self, placements: Placements, said: Hearsay, names: frozenset[str], quotas: QuotaTable) -> None:
        self._placements = placements
        self._state = placements.state
        self._said = said
        self._names = names
        self._quotas = quotas

    def everything(self) -> Iterator[Errand]:
        """All there is to look at."""
        for key in self._state.claims:
            yield Errand(Kind.STATUS, key)
        for pod in self._state.pods.values():
            if pod.claim_template:
                yield Errand(Kind.COPY, pod.key)
        yield from map(about_quotas, self.limited())

    def standing(self, claim: Claim) -> Standing:
        """How a claim stands."""
        pod = last_user_of(claim.key, self._placements)
        if pod is None:
            return claim_standing(claim, None, template=self._state.is_template(claim.key))
        return claim_standing(
            claim,
            pod,
            reserved=self._said.reserved_for(pod),
            refusal=self._said.refusal_of(pod),
            ours=pod.scheduler in self._names,
        )

    def to_be_said(self, claim: Claim) -> Standing | None:
        """How a claim stands, if its status does not say so and we are the ones to say it."""
        standing = self.standing(claim)
        return None if says(claim, standing) or is_for_others_to_say(claim, standing) else standing

    def copy_wanted(self, key: ObjectKey) -> CopyClaim | None:
        """The claim to be made for a pod, if one is: it is ours, names a template that is there, and has none yet."""
        pod = self._state.pods.get(key)
        if pod is None or not pod.claim_template or pod.claim or not pod.uid or pod.scheduler not in self._names:
            return None
        template = self._state.claims.get(ObjectKey(key.namespace, pod.claim_template))
        going = pod.deleting or pod.phase.over
        if going or template is None or copy_key(key, pod.uid) in self._state.claims:
            return None
        return CopyClaim(
            pod=key,
            uid=pod.uid,
            template=template.key.name,
            template_uid=template.uid,
            generation=template.generation,
        )

    def pods_asking_through(self, claim: ObjectKey) -> list[Pod]:
        """Every pod whose ask depends on this claim: as its own, as its copy, or as its template."""
        named = [*self._state.pods_naming(claim), *self._state.pods_from_template(claim)]
        known = self._state.claims.get(claim)
        maker = None if known is None or not known.pod else self._state.pods.get(ObjectKey(claim.namespace, known.pod))
        return named if maker is None else [*named, maker]

    def limited(self) -> list[str]:
        """Namespaces that have quotas, by name."""
        return sorted({key.namespace for key in self._state.quotas})

    def is_limited(self, namespace: str) -> bool:
        return any(key.namespace == namespace for key in self._state.quotas)

    def quota_standings(self, namespace: str) -> list[QuotaStanding]:
        """How the quotas of a namespace stand."""
        quotas = [self._state.quotas[key] for key in sorted(self._state.quotas) if key.namespace == namespace]
        if not quotas:
            return []
        return quota_standings(quotas, self._quotas.usage(namespace), self._waiting_for_quota(namespace))

    def has_intentions(self, namespace: str) -> bool:
        """Whether room is held for pods of a namespace that are not bound, as far as is known."""
        heard = self._state.pods
        return any(
            key.namespace == namespace and (key not in heard or not heard[key].holds_room)
            for key in self._placements.pods
        )

    def _waiting_for_quota(self, namespace: str) -> dict[ObjectKey, Usage]:
        """Pods refused for quota, with the least each would take."""
        waiting: dict[ObjectKey, Usage] = {}
        for key in self._said.over_quota(namespace):
            pod = self._state.pods.get(key)
            asking = None if pod is None else with_claim(pod, self._placements)
            ask = device_ask(asking) if isinstance(asking, Pod) else None
            if ask is not None:
                waiting[key] = least_taken(ask)
        return waiting
