# PPO on CartPole on the CPU, as `make train` does it:
#
#     docker build -t spinup .
#     docker run --rm -v "$PWD/out:/spinup/out" spinup
#
# The learning curve and the clip are then in out/quickstart.
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*

# PyTorch's own index has a build without CUDA; pip prefers it to the one on PyPI.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1

WORKDIR /spinup
COPY Makefile pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY spinup ./spinup
RUN make .venv EXTRAS=video

CMD ["make", "train"]
