"""Remedies for reasons about the pod itself: gates, claims, VMs, gangs, quota."""

import shlex
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ullage.decide.explain.proof import copy_of
from ullage.decide.explain.remedy import Case, Change, Remedy, patch, recreate
from ullage.decide.gang.membership import gang_members, gang_of
from ullage.decide.placement.engine import device_ask
from ullage.decide.placement.prefilter import claim_key
from ullage.decide.placement.quota import least_taken
from ullage.model.claim import Claim, DevicePolicy, DeviceRequest
from ullage.model.fact_event import Added, ObjectKey, Updated
from ullage.model.gang import PodGroup
from ullage.model.pod import Pod
from ullage.model.quota import QuotaUsage
from ullage.model.resources import GPU, MILLI
from ullage.model.vm import Vm, VmAmounts
from ullage.model.yaml_flow import yaml_flow


def ungated(case: Case) -> Iterator[Remedy]:
    body = shlex.quote('[{"op":"remove","path":"/spec/schedulingGates"}]')
    yield Remedy(
        sentence=f"remove spec.schedulingGates of {case.pod.key}, or let whoever set them do it",
        commands=(f"kubectl -n {case.pod.key.namespace} patch pod {case.pod.key.name} --type json -p {body}",),
        changes=case.with_pod(gated=False),
    )


def by_claim_instead(case: Case) -> Iterator[Remedy]:
    """A pod that asks by Dynamic Resource Allocation asks by a GpuClaim instead."""
    claim = new_claim(case, copy_of(case.pod.key.name, (key.name for key in case.assigner.snapshot.state.claims)))
    yield Remedy(
        sentence=f"ask for the GPUs by GpuClaim {claim.key} in annotation gpu.scheduling/claim, without "
        "spec.resourceClaims; or leave spec.schedulerName out, so that kube-scheduler allocates them",
        commands=(create_claim(claim), *recreate(case.pod, "spec.resourceClaims")),
        changes=(Added(claim.key, claim), *case.with_pod(device_claims=(), claim=claim.key.name)),
    )


def with_a_claim(case: Case) -> Iterator[Remedy]:
    """The claim that the pod names is created, or the pod names one that is there."""
    state, named = case.assigner.snapshot.state, case.pod.claim or case.pod.claim_template
    key = ObjectKey(case.pod.key.namespace, named.rpartition("/")[2])
    known = state.claims.get(key)
    if known is not None and not known.deleting:
        field = "claim" if case.pod.claim else "claim-template"
        change = {"claim": key.name} if case.pod.claim else {"claim_template": key.name}
        yield Remedy(
            sentence=f"name {key.name} in annotation gpu.scheduling/{field}: claims are of the pod's own namespace",
            commands=recreate(case.pod, f"annotation gpu.scheduling/{field}"),
            changes=case.with_pod(**change),
        )
        return
    claim = new_claim(case, key.name)
    elsewhere = sorted(one.namespace for one in state.claims if one.name == key.name and one != key)
    aside = f"; the one in namespace {elsewhere[0]} is of no use to it" if elsewhere else ""
    correction = {"claim": key.name} if case.pod.claim else {"claim_template": key.name}
    made: Change = Added(key, claim) if known is None else Updated(key, known, replace(claim, uid=known.uid))
    yield Remedy(
        sentence=f"create GpuClaim {key}, or correct the pod's annotation{aside}",
        commands=(create_claim(claim),),
        changes=(made, *(case.with_pod(**correction) if named != key.name else ())),
    )


def with_a_right_claim(case: Case) -> Iterator[Remedy]:
    pod, key = case.pod, claim_key(case.pod)
    if pod.claim_unnamed:
        yield Remedy(
            sentence=f"remove annotation {pod.claim_unnamed} of {pod.key}, or name a GpuClaim in it",
            commands=recreate(pod, f"annotation {pod.claim_unnamed}"),
            changes=case.with_pod(claim_unnamed=""),
        )
    elif pod.claim and pod.claim_template:
        yield Remedy(
            sentence=f"remove annotation gpu.scheduling/claim-template of {pod.key}, or gpu.scheduling/claim",
            commands=recreate(pod, "annotation gpu.scheduling/claim-template"),
            changes=case.with_pod(claim_template=""),
        )
    elif key is not None and key in case.known.unreadable_claims:
        claim = new_claim(case, key.name)
        yield Remedy(
            sentence=f"correct GpuClaim {key}: {case.detail}",
            commands=(f"kubectl -n {key.namespace} edit gpuclaim {key.name}",),
            changes=(Added(key, claim),),
            readable=frozenset({key}),
        )
    elif case.claim is not None:
        wanted = max(_requested(pod), case.claim.ask.count)
        fields = {"devices": {"policy": "contiguous", "preferIds": None, "count": wanted}}
        said = f"leave preferIds out and ask for {wanted}"
        changes = {"policy": DevicePolicy.CONTIGUOUS, "prefer_ids": (), "count": wanted}
        yield from filter(None, (case.asking(said, fields, **changes),))


def with_its_own_claim(case: Case) -> Iterator[Remedy]:
    yield Remedy(
        sentence=f"name {case.pod.claim} of {case.pod.key} in gpu.scheduling/claim-template instead of "
        "gpu.scheduling/claim: each pod then has a claim of its own",
        commands=recreate(case.pod, "annotation gpu.scheduling/claim"),
        changes=case.with_pod(claim="", claim_template=case.pod.claim),
    )


def _requested(pod: Pod) -> int:
    return max(1, -(-dict(pod.shape.requests).get(GPU, 0) // MILLI))


def new_claim(case: Case, name: str) -> Claim:
    """A claim for as many GPUs as the pod requests, at least one."""
    key = ObjectKey(case.pod.key.namespace, name)
    return Claim(key=key, uid=f"new-{name}", generation=1, ask=DeviceRequest(count=_requested(case.pod)))


def create_claim(claim: Claim) -> str:
    """Command that creates a claim."""
    body = f'"metadata":{{"name":"{claim.key.name}","namespace":"{claim.key.namespace}"}}'
    spec = f'"spec":{{"devices":{{"count":{claim.ask.count}}}}}'
    text = f'{{"apiVersion":"gpu.scheduling/v1","kind":"GpuClaim",{body},{spec}}}'
    return f"echo {shlex.quote(text)} | kubectl apply -f -"


def with_a_vm(case: Case) -> Iterator[Remedy]:
    if case.pod.vm is None:
        return
    key, slot = ObjectKey(case.pod.key.namespace, case.pod.vm.name), case.assigner.snapshot.vms.config.slot
    amounts = VmAmounts(max(1000, slot.cpu), max(1 << 30, slot.memory))
    vm = Vm(key=key, uid=f"new-{key.name}", minimum=amounts, use=amounts, maximum=amounts, memory_slot=slot.memory)
    yield Remedy(
        sentence=f"create VirtualMachine {key}, or correct label vm.neon.tech/name of {case.pod.key}",
        commands=(f"kubectl -n {key.namespace} get virtualmachines",),
        changes=(Added(key, vm),),
    )


def with_right_amounts(case: Case) -> Iterator[Remedy]:
    vm = _vm(case)
    if vm is None:
        return
    slot = case.assigner.snapshot.vms.config.slot
    least = VmAmounts(vm.minimum.cpu or 1000, vm.minimum.memory or slot.memory)
    use = VmAmounts(max(vm.use.cpu, least.cpu), max(vm.use.memory, least.memory))
    most = VmAmounts(max(vm.maximum.cpu, use.cpu), max(vm.maximum.memory, use.memory))
    yield Remedy(
        sentence=f"correct the amounts of VirtualMachine {vm.key}: {case.detail}",
        commands=(f"kubectl -n {vm.key.namespace} edit virtualmachine {vm.key.name}",),
        changes=(Updated(vm.key, vm, replace(vm, minimum=least, use=use, maximum=most)),),
    )


def with_right_slots(case: Case) -> Iterator[Remedy]:
    vm = _vm(case)
    if vm is not None:
        slot = case.assigner.snapshot.vms.config.slot.memory
        yield Remedy(
            sentence=f"create VirtualMachine {vm.key} again with memory slots as the VM configuration has them: "
            f"{case.detail}",
            commands=(f"kubectl -n {vm.key.namespace} get virtualmachine {vm.key.name} -o yaml > {vm.key.name}.yaml",),
            changes=(Updated(vm.key, vm, replace(vm, memory_slot=slot)),),
        )


def _vm(case: Case) -> Vm | None:
    if case.pod.vm is None:
        return None
    return case.assigner.snapshot.state.vms.get(ObjectKey(case.pod.key.namespace, case.pod.vm.name))


def with_a_gang_size(case: Case) -> Iterator[Remedy]:
    gang = gang_of(case.pod, case.assigner.snapshot.state)
    if gang is not None:
        count = len(gang_members(gang, case.assigner.snapshot.state))
        spec = f'"spec":{{"minMember":{count}}}}}'
        meta = f'"metadata":{{"name":"{gang.name}","namespace":"{gang.namespace}"}}'
        text = f'{{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroup",{meta},{spec}'
        yield Remedy(
            sentence=f"create PodGroup {gang} with minMember {count}, or set spec.gangMinMember of its claims",
            commands=(f"echo {shlex.quote(text)} | kubectl apply -f -",),
            changes=(Added(gang, PodGroup(key=gang, min_member=count)),),
        )


def with_all_members(case: Case) -> Iterator[Remedy]:
    """The missing members of a gang are created; or the gang is content with those that are there."""
    gang = gang_of(case.pod, case.assigner.snapshot.state)
    if gang is None:
        return
    ask, state = case.assigner.gang_ask(gang), case.assigner.snapshot.state
    missing = ask.needed - len(ask.pending)
    if missing <= 0:
        return
    changes: list[Change] = []
    for number in range(missing):
        name = f"{case.pod.key.name}-more-{number}"
        key, claim = ObjectKey(gang.namespace, name), case.claim
        if claim is not None and case.pod.claim:
            own = replace(claim, key=key, uid=f"uid-{name}", resource_version="")
            changes.append(Added(key, own))
        named = name if case.pod.claim else ""
        changes.append(Added(key, replace(case.pod, key=key, uid=f"uid-{name}", claim=named)))
    there = ask.min_member - missing
    yield Remedy(
        sentence=f"create the {'member' if missing == 1 else f'{missing} members'} of gang {gang} that "
        f"{'is' if missing == 1 else 'are'} missing: it needs {ask.min_member}, and "
        f"{there} {'is' if there == 1 else 'are'} there",
        commands=(f"kubectl -n {gang.namespace} get pods,gpuclaims",),
        changes=tuple(changes),
    )
    group = state.groups.get(gang)
    if group is not None and there > 0:
        yield Remedy(
            sentence=f"lower minMember of PodGroup {gang} to {there}",
            commands=(patch("podgroup", gang, {"spec": {"minMember": there}}),),
            changes=(Updated(gang, group, replace(group, min_member=there)),),
        )


def with_more_quota(case: Case) -> Iterator[Remedy]:
    """Every quota of the namespace that is too low is raised by what the pod needs."""
    state, namespace = case.assigner.snapshot.state, case.pod.key.namespace
    used = case.assigner.quota.usage(namespace)
    gang = gang_of(case.pod, case.assigner.snapshot.state)
    pods = (case.ready,) if gang is None else case.assigner.gang_ask(gang).pending or (case.ready,)
    asks = [ask for pod in pods if (ask := device_ask(pod)) is not None]
    more = QuotaUsage(
        gpus=sum(least_taken(ask).gpus for ask in asks), shares=sum(max(least_taken(ask).shares, 1000) for ask in asks)
    )
    changes: list[Change] = []
    commands: list[str] = []
    said: list[str] = []
    for key in sorted(key for key in state.quotas if key.namespace == namespace):
        quota = state.quotas[key]
        limits, spec = quota.limits, dict[str, object]()
        if more.gpus and limits.gpus is not None and used.gpus + more.gpus > limits.gpus:
            spec["gpus"] = used.gpus + more.gpus
            limits = replace(limits, gpus=used.gpus + more.gpus)
        if more.gpus and limits.by_model:
            raised = {name: most + more.gpus for name, most in limits.by_model}
            spec["byModel"] = raised
            limits = replace(limits, by_model=tuple(sorted(raised.items())))
        if not more.gpus and limits.shares is not None:
            spec["sharesMilli"] = used.shares + more.shares
            limits = replace(limits, shares=used.shares + more.shares)
        if limits != quota.limits:
            changes.append(Updated(key, quota, replace(quota, limits=limits)))
            commands.append(patch("gpuquota", key, {"spec": spec}))
            said.append(", ".join(_raised(field, amount) for field, amount in spec.items()))
    if changes:
        yield Remedy(
            sentence=f"raise the GpuQuota of namespace {namespace}: {' and '.join(said)}",
            commands=tuple(commands),
            changes=tuple(changes),
        )


def _raised(field: str, amount: object) -> str:
    """A limit as it is to stand: `gpus to 20`, `byModel: {H100: 20}`."""
    return f"{field}: {yaml_flow(amount)}" if isinstance(amount, Mapping) else f"{field} to {amount}"
