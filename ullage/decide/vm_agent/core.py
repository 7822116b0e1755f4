"""VmAgentCore: the state machine that resizes one VM. Facts and outcomes go in, `next_actions(now)` returns what to do.

Up: the scheduler is asked, then the VM grows. Down: the VM shrinks, then the scheduler is told. At most one request and
one resize are under way. No I/O; docs/vms.md, The agent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ullage.decide.vm_agent.goal import NO_METRICS, ScalingRules, VmBounds, VmMetrics, desired_amounts
from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import VmAmounts

_TICK, _AFTER_DENIAL, _AFTER_FAILED_REQUEST = Seconds(15.0), Seconds(2.0), Seconds(3.0)
_AFTER_FAILED_RESIZE, _METRICS_EXPIRE = Seconds(5.0), Seconds(20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTimings:
    tick: Seconds = _TICK
    """Longest time between two requests, though nothing changed."""
    after_denial: Seconds = _AFTER_DENIAL
    after_failed_request: Seconds = _AFTER_FAILED_REQUEST
    after_failed_resize: Seconds = _AFTER_FAILED_RESIZE
    metrics_expire: Seconds = _METRICS_EXPIRE
    """Older metrics count as missing."""


@dataclass(frozen=True, slots=True)
class AskScheduler:
    """Tell the scheduler what the VM uses, or ask for more."""

    wanted: VmAmounts
    last_permit: VmAmounts | None
    why: str


@dataclass(frozen=True, slots=True)
class ResizeVm:
    """Write the VM's new size to its VirtualMachine."""

    target: VmAmounts
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentActions:
    """Actions to start now, and the latest instant at which to decide again."""

    ask: AskScheduler | None = None
    resize: ResizeVm | None = None
    wait_until: Instant | None = None


class VmAgentCore:
    """One VM's agent."""

    def __init__(
        self, vm: VmBounds, unit: VmAmounts, rules: ScalingRules | None = None, timings: AgentTimings | None = None
    ) -> None:
        self._vm = vm
        self._unit = unit
        self._rules = rules or ScalingRules()
        self._timings = timings or AgentTimings()
        self._metrics, self._metrics_at = NO_METRICS, Instant(0.0)
        self._migrating = False
        self._must_migrate = False
        self._permit: VmAmounts | None = None
        self._asking: VmAmounts | None = None
        self._asked_at: Instant | None = None
        self._request_failed_at: Instant | None = None
        self._denied_at: Instant | None = None
        self._resizing: VmAmounts | None = None
        self._uncertain: VmAmounts | None = None
        """Target of a resize that failed: the VM may have it all the same, until it is observed again."""
        self._resize_failed_at: Instant | None = None

    @property
    def permit(self) -> VmAmounts | None:
        """The most the VM may use without another request; None before the first answer."""
        return self._permit

    @property
    def stays(self) -> bool:
        """True while the VM keeps its size: it migrates, or the scheduler said that it will."""
        return self._migrating or self._must_migrate

    def configure(self, unit: VmAmounts, rules: ScalingRules, timings: AgentTimings) -> None:
        """Take over other rules. What is under way ends as it began."""
        self._unit, self._rules, self._timings = unit, rules, timings

    # Facts.

    def observe_vm(self, vm: VmBounds, *, migrating: bool = False) -> None:
        """The VirtualMachine as it is now."""
        self._vm = vm
        self._migrating = migrating
        self._uncertain = None

    def observe_metrics(self, metrics: VmMetrics, *, now: Instant) -> None:
        self._metrics, self._metrics_at = metrics, now

    # Decisions.

    def next_actions(self, *, now: Instant) -> AgentActions:
        """Requests and resizes to start now. Each is to be reported as begun, and later as ended."""
        desired = self.desired(now=now)
        ask = self._next_ask(desired, now)
        resize = self._next_resize(desired, ask, now)
        return AgentActions(ask=ask, resize=resize, wait_until=self._wait_until(ask, now))

    def desired(self, *, now: Instant) -> VmAmounts:
        """The size the VM should have."""
        fresh = elapsed(self._metrics_at, now) < self._timings.metrics_expire
        return desired_amounts(self._vm, self._metrics if fresh else NO_METRICS, self._unit, self._rules)

    def _next_ask(self, desired: VmAmounts, now: Instant) -> AskScheduler | None:
        failed = self._request_failed_at
        blocked = failed is not None and elapsed(failed, now) < self._timings.after_failed_request
        if self._asking is not None or blocked:
            return None
        wanted = self._wanted(desired)
        if self._tick_due(now):
            return AskScheduler(wanted, self._permit, "it is time to report")
        if self.stays or self._permit is None or wanted == self._permit:
            return None
        if self._denied_at is not None and elapsed(self._denied_at, now) < self._timings.after_denial:
            return None
        why = "the VM has shrunk" if wanted.within(self._permit) else "the VM needs more"
        return AskScheduler(wanted, self._permit, why)

    def _next_resize(self, desired: VmAmounts, ask: AskScheduler | None, now: Instant) -> ResizeVm | None:
        if self.stays or self._resizing is not None:
            return None
        failed = self._resize_failed_at
        if failed is not None and elapsed(failed, now) < self._timings.after_failed_resize:
            return None
        target = desired.at_most(self._permit or self._vm.using)
        # A request's amounts must not be exceeded while it is under way or about to be sent.
        for said in (self._asking, ask.wanted if ask is not None else None):
            if said is not None:
                target = target.at_most(said)
        if target == self._vm.using:
            return None
        grows = not target.within(self._vm.using)
        return ResizeVm(target, "the scheduler permits more" if grows else "the VM needs less")

    def _wanted(self, desired: VmAmounts) -> VmAmounts:
        """Amounts to report to the scheduler: those desired, and never less than is or may be in use."""
        using = self._vm.using
        for target in (self._resizing, self._uncertain):
            using = using.at_least(target or using)
        if self.stays:
            return self._permit or using
        return desired.at_least(using)

    def _tick_due(self, now: Instant) -> bool:
        if self._request_failed_at is not None:
            return True
        return self._asked_at is None or elapsed(self._asked_at, now) >= self._timings.tick

    def _wait_until(self, ask: AskScheduler | None, now: Instant) -> Instant | None:
        """The next instant at which time alone allows an action. Answers and facts wake the core by themselves."""
        instants: list[Instant | None] = [None if ask is not None else self._next_request_at()]
        if self._denied_at is not None:
            instants.append(after(self._denied_at, self._timings.after_denial))
        if self._resize_failed_at is not None:
            instants.append(after(self._resize_failed_at, self._timings.after_failed_resize))
        return _earliest(instant for instant in instants if instant is not None and instant > now)

    def _next_request_at(self) -> Instant | None:
        if self._asking is not None or self._asked_at is None:
            return None
        tick = after(self._asked_at, self._timings.tick)
        if self._request_failed_at is None:
            return tick
        return after(self._request_failed_at, self._timings.after_failed_request)

    # Outcomes.

    def ask_begun(self, ask: AskScheduler, *, now: Instant) -> None:
        """Note that a request was sent. A decrease counts from now: the answer to it may be lost."""
        self._asking = ask.wanted
        self._asked_at = now
        self._request_failed_at = None
        if self._permit is not None:
            self._permit = self._permit.at_most(ask.wanted)

    def ask_answered(self, granted: VmAmounts, *, migrate: bool = False, now: Instant) -> bool:
        """Take over a permit. False: the permit is invalid, and counts as a failure."""
        asked = self._asking
        sound = granted.cpu > 0 and granted.memory > 0 and self._vm.using.within(granted)
        if asked is None or not sound or not granted.within(asked):
            self.ask_failed(now=now)
            return False
        self._asking = None
        self._permit = granted
        self._must_migrate = migrate
        self._denied_at = now if granted != asked else None
        return True

    def ask_failed(self, *, now: Instant) -> None:
        """No answer, an error, or an invalid answer. The last permit stays."""
        self._asking = None
        self._request_failed_at = now

    def ask_refused_as_migrating(self, *, now: Instant) -> None:
        """The scheduler moves this VM: its size stays, and it is reported at the next tick."""
        self._asking = None
        self._asked_at = now
        self._must_migrate = True

    def resize_begun(self, resize: ResizeVm) -> None:
        self._resizing = resize.target
        self._resize_failed_at = None

    def resize_done(self) -> None:
        """The VirtualMachine has the new size."""
        if self._resizing is not None:
            self._vm = VmBounds(using=self._resizing, minimum=self._vm.minimum, maximum=self._vm.maximum)
        self._resizing = None

    def resize_failed(self, *, now: Instant) -> None:
        """The VirtualMachine was not written, or that is unknown. The caller reads it afresh and calls `observe_vm`."""
        self._uncertain, self._resizing = self._resizing, None
        self._resize_failed_at = now


def _earliest(instants: Iterable[Instant]) -> Instant | None:
    return min(instants, default=None)
