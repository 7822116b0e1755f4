"""Tests of `ullage.certs`."""
