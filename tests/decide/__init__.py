"""Tests of `ullage.decide`."""
