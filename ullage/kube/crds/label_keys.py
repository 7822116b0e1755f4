"""Syntax of label keys, for rules in CEL and in Python."""

import re

LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

is_label_key = re.compile(LABEL_KEY).fullmatch
