"""Tests of `ullage.act`: on the API server in memory and on the real one."""
