"""Installation: the needs of each component, declared once, and the manifests, chart data and checks made from them.

`components` and `roles` are the declaration. `manifests` makes Kubernetes objects of it for `ullage install`; `chart`
writes it into `deploy/helm/ullage/files`, where the templates read it. No decision about pods or nodes lives here.
"""
