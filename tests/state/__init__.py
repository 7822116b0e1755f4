"""Tests of `ullage.state`."""
