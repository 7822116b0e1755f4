# Image of every component: `docker build -t ullage:0.1.0 .`, then `ullage install --image ullage:0.1.0 --apply`.
# The second stage has Python and what ullage needs: no compiler, no cache of a package manager, no user but one without
# rights. It writes nothing, so its root file system may be read-only.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/image.lock requirements/image.lock
RUN python -m venv --without-pip /opt/ullage
RUN python -m pip --python /opt/ullage/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/image.lock
COPY pyproject.toml README.md LICENSE ./
COPY ullage ullage
RUN python -m pip --python /opt/ullage/bin/python install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .
RUN python -m compileall -q /opt/ullage/lib

FROM python:3.13-slim
COPY --from=build /opt/ullage /opt/ullage
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/opt/ullage/bin:$PATH
USER 65532:65532
ENTRYPOINT ["/opt/ullage/bin/ullage"]
CMD ["--help"]
