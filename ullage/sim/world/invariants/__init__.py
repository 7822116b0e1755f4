"""Invariants, checked after every write for the objects it touched. Each breach is a sentence.

Checks read the objects as stored, and know nothing of how decisions were made.
"""
