"""Chaos: seeded stories of jobs and faults, played on a simulated world with every loop and checked after every write.

A story is plain data, so that a failing one can be cut down to what is needed and replayed. Nothing is decided here.
"""
