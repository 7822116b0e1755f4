"""CustomResourceDefinitions of this project's kinds, generated from the structs that decode them.

The structs in `objects.gpu` are the only place where a field, its default and its limits are written down. From them
come the schema (`schema`), the definitions (`definition`, `catalog`), the files in `deploy/crds` (`python -m
ullage.kube.crds`) and the check of objects no API server has seen (`check`). The meaning of an object is not here; it
is in `kube.read.gpu`.
"""
