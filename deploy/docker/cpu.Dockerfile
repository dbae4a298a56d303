# The server for processors, pocket models inside (x86_64). From the project's top folder:
#   docker build -f deploy/docker/cpu.Dockerfile --build-arg COMMIT=$(git rev-parse HEAD) -t specbook-cpu:0.1.0 .
FROM debian:bookworm-slim

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates g++ libnuma1 libtcmalloc-minimal4 make python3.11 python3.11-dev python3.11-venv \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 specbook \
 && useradd --uid 10001 --gid 10001 --no-create-home specbook  # PyTorch asks for the user's name

WORKDIR /opt/specbook
# Packages first: this layer changes only with the locks.
COPY Makefile pyproject.toml README.md LICENSE ./
COPY requirements requirements
RUN PIP_NO_CACHE_DIR=1 make .venv/.locked ENGINE=cpu

COPY lib lib
COPY params params
COPY models models
# Bytecode now: the container's root is read-only, and each start would compile thousands of modules in vain.
RUN make .venv/.installed ENGINE=cpu \
 && .venv/bin/python -m compileall -q -j 0 -x '/(tests?|templates)/|lib2to3|/py312_' .venv/lib lib

ARG COMMIT=
ENV PATH=/opt/specbook/.venv/bin:$PATH \
    LD_PRELOAD=/opt/specbook/.venv/lib/libiomp5.so:/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPECBOOK_COMMIT=$COMMIT \
    VLLM_NO_USAGE_STATS=1

USER 10001:10001
EXPOSE 8000
CMD ["specbook", "--help"]
