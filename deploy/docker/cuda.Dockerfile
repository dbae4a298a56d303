# The server for NVIDIA GPUs (x86_64). CUDA's libraries come with the locked wheels, the driver from the node. From the top folder:
#   docker build -f deploy/docker/cuda.Dockerfile --build-arg COMMIT=$(git rev-parse HEAD) -t specbook-cuda:0.1.0 .
FROM debian:bookworm-slim

# g++ and the headers: Triton compiles its launchers at run time.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates g++ make python3.11 python3.11-dev python3.11-venv \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 specbook \
 && useradd --uid 10001 --gid 10001 --no-create-home specbook  # PyTorch asks for the user's name

WORKDIR /opt/specbook
# Packages first: this layer, several gigabytes, changes only with the lock.
COPY Makefile pyproject.toml README.md LICENSE ./
COPY requirements requirements
RUN PIP_NO_CACHE_DIR=1 make .venv/.locked ENGINE=cuda

COPY lib lib
COPY params params
COPY models models
# Bytecode now: the container's root is read-only, and each start would compile thousands of modules in vain.
RUN make .venv/.installed ENGINE=cuda \
 && .venv/bin/python -m compileall -q -j 0 -x '/(tests?|templates)/|lib2to3|/py312_' .venv/lib lib

ARG COMMIT=
# FlashInfer's sampler is compiled on first use by an nvcc that this image does not have.
ENV PATH=/opt/specbook/.venv/bin:$PATH \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_VISIBLE_DEVICES=all \
    PYTHONDONTWRITEBYTECODE=1 \
    SPECBOOK_COMMIT=$COMMIT \
    VLLM_NO_USAGE_STATS=1 \
    VLLM_USE_FLASHINFER_SAMPLER=0

USER 10001:10001
EXPOSE 8000
CMD ["specbook", "--help"]
