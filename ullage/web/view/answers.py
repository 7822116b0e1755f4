"""Answers about claims, gangs, quotas, pools and nodes for the page: what `ullage explain` says of them."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ullage.decide.explain.answer import Answer
from ullage.decide.explain.claim import explain_claim
from ullage.decide.explain.drain_trial import DrainTrials
from ullage.decide.explain.gang import explain_gang
from ullage.decide.explain.node import explain_node
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.provisioner import explain_provisioner
from ullage.decide.explain.quota import explain_quota
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.web.view.cluster_copy import ClusterCopy
from ullage.web.view.rows import ViewRow

ANSWERED = ("claim", "gang", "quota", "pool", "node")
"""Kinds that can be asked about."""
CLUSTER_WIDE = ("pool", "node")
"""Kinds among them whose objects have no namespace."""
MOST_PLANNED = 2000
"""Waiting pods up to which a plan of the pools is made for an answer: nobody waits longer for a page."""


class _Explainer(Protocol):
    def __call__(
        self, snapshot: ClusterSnapshot, key: ObjectKey, known: PlanInputs, /, *, now: Instant
    ) -> Answer | None: ...


_EXPLAINERS: Mapping[str, _Explainer] = {"claim": explain_claim, "gang": explain_gang, "quota": explain_quota}


class AnswerView(ViewRow, frozen=True, kw_only=True):
    """An answer."""

    about: str
    verdict: str
    message: str
    lines: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def answered(copy: ClusterCopy, kind: str, key: ObjectKey) -> bytes | None:
    """Answer as JSON; None if there is no such object."""
    maker = _EXPLAINERS.get(kind)
    if maker is not None:
        said = maker(copy.snapshot, key, copy.known, now=copy.now)
    else:
        said = _pool(copy, key.name) if kind == "pool" else _node(copy, key.name)
    return None if said is None else msgspec.json.encode(_shown(said))


def _pool(copy: ClusterCopy, name: str) -> Answer | None:
    if not any(one.name == name for one in copy.known.pools):
        return None
    if copy.pending > MOST_PLANNED:
        return _not_planned(copy, f"nodeprovisioner/{name}")
    return explain_provisioner(copy.snapshot, name, copy.known, now=copy.now)


def _node(copy: ClusterCopy, name: str) -> Answer | None:
    """Explanation by the default rules of draining: the settings of the controller are not known here."""
    if name not in copy.snapshot.state.nodes:
        return None
    if copy.pending > MOST_PLANNED:
        return _not_planned(copy, f"node/{name}")
    return explain_node(copy.snapshot, name, copy.known, DrainTrials(now=copy.now, packing=copy.policy), every=False)


def _not_planned(copy: ClusterCopy, about: str) -> Answer:
    return Answer(
        about=about,
        verdict="NotPlanned",
        message=f"{copy.pending} pods wait: ask on the command line what is planned",
        commands=(f"ullage explain {about}",),
    )


def _shown(said: Answer) -> AnswerView:
    helps = [one.remedy.sentence for one in said.remedies]
    tried = [command for one in said.remedies[:1] for command in one.remedy.commands]
    return AnswerView(
        about=said.about,
        verdict=said.verdict,
        message=said.message,
        lines=said.lines,
        helps=tuple(dict.fromkeys((*helps, *said.steps))),
        commands=tuple(dict.fromkeys((*tried, *said.commands))),
    )
