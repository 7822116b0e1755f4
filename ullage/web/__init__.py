"""Dashboard: the control plane's view of the cluster and the reasons for its actions, in a browser. Read-only.

`view` is pure (facts in, rows out), `serve` is the HTTP server, `static` has the browser's files, `live` assembles
them.
"""
