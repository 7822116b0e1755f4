"""Judgement: functions of facts, policy and `now` that return frozen actions with a `why`, or verdicts.

One file or folder per question. Pure: no clock, no chance, no log, no I/O, no `await`. Shared by the live loops,
by `ullage plan` and by the simulator.
"""
