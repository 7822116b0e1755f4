"""Common Expression Language, as far as rules in CustomResourceDefinitions need it: read, compiled, evaluated.

An expression becomes nested closures, so that a rule costs little more than the same test written in Python. Types are
looked at when a rule runs, not before: what the real server refuses to compile may fail here when it is evaluated.
Fields with a format (date-time, duration) are the strings they are spelled as; `timestamp()`, `duration()` read them.
"""

from ullage.kube.cel.errors import CelError, NotCel
from ullage.kube.cel.program import CelProgram, compiled

__all__ = ["CelError", "CelProgram", "NotCel", "compiled"]
