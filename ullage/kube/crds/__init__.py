"""Our own kinds as the API server must know them: CustomResourceDefinitions made from the structs that read them.

The structs in `objects.gpu` are the only place where a field, its default and its limits are written down. From them
come the schema (`schema`), the definitions (`definition`, `catalog`), the files in `deploy/crds` (`python -m
ullage.kube.crds`) and the check of objects no API server has seen (`check`). Nothing here says what an object means;
that is `gpu_read`.
"""
