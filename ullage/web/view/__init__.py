"""Rows of the dashboard: a pure function of facts and time, updated row by row. No I/O, no clock, no HTTP."""
