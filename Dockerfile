# dsascape without TVM: simulation, sweeps, reports. Built from a checkout or from an unpacked source archive:
#   docker build --tag dsascape .
#   docker run --rm --volume "$PWD:/work" dsascape simulate resnet50 --hardware stcp920 --policy graphturbo
# With TVM and onnxruntime, for measuring: docker build --build-arg EXTRAS=tvm,parquet --tag dsascape .

# The wheel, with its modules in C; the compiler stays behind in this stage.
FROM python:3.11-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
ARG EXTRAS=parquet
COPY --from=build /wheels /wheels
RUN set -- /wheels/*.whl \
    && pip install --no-cache-dir "$1[${EXTRAS}]" \
    && rm -rf /wheels \
    && useradd --create-home --uid 1000 dsascape \
    && install --directory --owner dsascape --group dsascape /work
USER dsascape
WORKDIR /work
# Caches that any user may write, also one given with --user; results go to /work.
ENV PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib XDG_CACHE_HOME=/tmp/cache
ENTRYPOINT ["dsascape"]
CMD ["--help"]
