"""Tests of `ullage.decide.fit`."""
