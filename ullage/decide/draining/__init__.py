"""Decisions of draining: drain scope, plans, removal trials and pacing. No I/O; time is an argument."""
