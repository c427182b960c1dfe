# docker build -t slipstream .                                        CPU, every package by its hash
# docker build -t slipstream --build-arg TORCH=cu128 .                CUDA 12.8: docker run --gpus all slipstream train preset=h200
# docker run --user $(id -u) -v $PWD/runs:/work/runs slipstream train preset=demo     the run folder is kept outside
FROM python:3.11-slim
ARG TORCH=cpu
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ ffmpeg && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home slipstream && install -d -m 777 /work /work/runs
COPY requirements.lock constraints.txt /src/
RUN if [ "$TORCH" = cpu ]; then pip install --no-cache-dir --require-hashes -r /src/requirements.lock; \
    else pip install --no-cache-dir "$(grep ^torch== /src/constraints.txt)" --index-url "https://download.pytorch.org/whl/$TORCH"; fi
COPY pyproject.toml README.md LICENSE /src/
COPY slipstream /src/slipstream
RUN pip install --no-cache-dir -c /src/constraints.txt '/src[all]'
USER slipstream
# with --user the home folder of that user is not there: compiled kernels are kept here
ENV HOME=/work
WORKDIR /work
EXPOSE 8000
ENTRYPOINT ["slipstream"]
CMD ["doctor"]
