"""The dashboard: what the control plane sees and why it acted, in a browser. Read-only.

`view` is pure (facts in, rows out), `serve` is the HTTP side, `static` what a browser gets, `live` puts them together.
"""
