"""Need of new nodes: recorded once it has lasted, taken back once it has been gone for as long."""

import msgspec

from tests.decide.vms.test_core import a_core, at, settle
from tests.decide.vms.test_migration import a_candidate
from tests.vms import an_ordinary_pod, key, size
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.migration import MigrationRules, plan_migrations
from ullage.model.intents import RecordNodeNeed, StartMigration
from ullage.model.outcomes import NodeNeedRecorded, VmIntentRefused
from ullage.model.units import Instant, Seconds

NOW = Instant(10_000.0)


def needs(core: VmCore, now: float) -> dict[str, float | None]:
    found = [one for one in core.next_intents(now=at(now)) if isinstance(one, RecordNodeNeed)]
    return {one.vm.key.name: one.since for one in found}


def observe(core: VmCore, name: str, since: float | None) -> None:
    """The watch shows the annotation."""
    vm = core.ledger.vm(key(name))
    assert vm is not None
    core.ledger.put_vm(msgspec.structs.replace(vm, needs_node=None if since is None else Instant(since)))


def a_full_cluster() -> VmCore:
    """VMs a (12 cores) and b (2 cores) on n0, 2 above its watermark; n1 is full of ordinary pods."""
    core = a_core(size(12, 8), size(2, 8), rules=VmRules(sustained=Seconds(30.0), node_need_after=Seconds(60.0)))
    core.ledger.put_ordinary(an_ordinary_pod("web", "n1", size(12, 8)))
    for name, load in (("a", 5.0), ("b", 0.1)):
        settle(core, name, size(12 if name == "a" else 2, 8), now=0.0, load=load)
    return core


def test_a_need_is_recorded_once_it_has_lasted_and_only_for_those_who_relieve() -> None:
    core = a_full_cluster()
    assert needs(core, 0.0) == {}
    assert needs(core, 30.0) == {}, "pressure is sustained; the need begins"
    assert core.unrelieved == {"n0": size(2, 0)}
    assert core.next_deadline() == 60.0, "the agents fall silent"
    assert needs(core, 89.0) == {}
    assert core.next_deadline() == 90.0
    assert needs(core, 90.0) == {"b": 30.0}, "the least loaded VM does; the other stays"
    assert needs(core, 91.0) == {}, "asked for once"
    assert needs(core, 95.0) == {"b": 30.0}, "and again where nothing is observed"
    observe(core, "b", 30.0)
    assert needs(core, 200.0) == {}


def test_a_need_that_comes_and_goes_is_not_recorded() -> None:
    core = a_full_cluster()
    needs(core, 0.0)
    needs(core, 30.0)
    core.ledger.put_ordinary(an_ordinary_pod("web", "n1", size(1, 8)))
    assert isinstance(core.next_intents(now=at(80.0))[0], StartMigration)


def test_a_need_is_taken_back_only_after_it_has_been_gone_for_as_long() -> None:
    core = a_full_cluster()
    observe(core, "b", 30.0)
    vm = core.ledger.vm(key("a"))
    assert vm is not None
    core.ledger.put_vm(msgspec.structs.replace(vm, use=size(4, 8)))
    settle(core, "a", size(4, 8), now=100.0)
    assert needs(core, 100.0) == {}
    assert core.next_deadline() == 160.0
    assert needs(core, 159.0) == {}
    assert needs(core, 160.0) == {"b": None}
    observe(core, "b", None)
    assert needs(core, 300.0) == {}


def test_a_migration_begins_as_soon_as_a_node_has_room() -> None:
    core = a_full_cluster()
    observe(core, "b", 30.0)
    needs(core, 0.0)
    needs(core, 31.0)
    core.ledger.put_node("new", size(16, 64))
    (start,) = core.next_intents(now=at(40.0))
    assert isinstance(start, StartMigration)
    assert start.vm.key == key("b")
    assert core.unrelieved == {}


def test_outcomes_of_a_record_change_nothing_by_themselves() -> None:
    core = a_full_cluster()
    for moment in (0.0, 30.0):
        needs(core, moment)
    (intent,) = core.next_intents(now=at(90.0))
    assert isinstance(intent, RecordNodeNeed)
    core.settle(VmIntentRefused(intent, "gone"))
    core.settle(NodeNeedRecorded(intent))
    assert needs(core, 95.0) == {"b": 30.0}


def test_without_migrations_no_node_helps() -> None:
    core = a_full_cluster()
    core.configure(VmRules(sustained=Seconds(0.0), node_need_after=Seconds(0.0), migrate=False))
    assert needs(core, 100.0) == {}
    assert core.unrelieved == {"n0": size(2, 0)}


def test_only_vms_that_a_new_node_would_help_are_in_need() -> None:
    plan = plan_migrations(
        size(9, 9),
        [
            a_candidate("fixed", 0.1, migratable=False, fits_elsewhere=False),
            a_candidate("resting", 0.2, last_migration=NOW - 10, fits_elsewhere=False),
            a_candidate("moves", 0.3),
            a_candidate("stuck", 0.4, fits_elsewhere=False),
            a_candidate("other", 0.5, reserved=size(8, 8), fits_elsewhere=False),
            a_candidate("spare", 0.6, reserved=size(8, 8), fits_elsewhere=False),
        ],
        MigrationRules(),
        now=NOW,
    )
    assert [one.pod.key.name for one in plan.start] == ["moves"]
    assert plan.unrelieved == size(7, 1)
    assert [one.pod.key.name for one in plan.in_need] == ["stuck", "other"], "enough of them, and no more"
