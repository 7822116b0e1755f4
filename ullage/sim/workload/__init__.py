"""Workloads: pods with arrival and run times, from traces, lists and a generator. No fleet, no policy."""
