"""Workloads: what pods arrive, when, and for how long, from traces, lists and a generator. No fleet, no policy."""
