"""Informers: list and watch turned into typed events for `state`, without losing or repeating a change. No
decisions."""
