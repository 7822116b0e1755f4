"""Scheduling decisions: SchedulerCore, the scheduling cycle, gangs, nominations and requeueing. No I/O."""
