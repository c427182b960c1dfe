# docker build -t slipstream .                                        CPU
# docker build -t slipstream --build-arg TORCH=cu128 .                CUDA 12.8: docker run --gpus all slipstream train preset=h200
# docker run -v $PWD/runs:/work/runs slipstream train preset=demo     the run folder is kept outside
FROM python:3.11-slim
ARG TORCH=cpu
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ ffmpeg && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/${TORCH}
COPY pyproject.toml README.md LICENSE /src/
COPY slipstream /src/slipstream
RUN pip install --no-cache-dir '/src[gym,export,mujoco,sweep]'
WORKDIR /work
EXPOSE 8000
ENTRYPOINT ["slipstream"]
CMD ["doctor"]
