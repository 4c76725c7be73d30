# docker build --target viewer -t attention-tiles . && docker run -p 8501:8501 attention-tiles
# Whoever reaches the container looks and moves everything, and runs nothing.
FROM python:3.13-slim AS viewer
RUN useradd --create-home viewer
WORKDIR /home/viewer/attention-tiles
COPY app/requirements.txt app/requirements.txt
RUN pip install --no-cache-dir -r app/requirements.txt
COPY . .
USER viewer
ENV STREAMLIT_SERVER_ADDRESS=0.0.0.0 STREAMLIT_SERVER_PORT=8501
EXPOSE 8501
CMD ["python", "-m", "app"]

# With the kernels: docker run --gpus all -p 8501:8501; a server's visitors run none of them without the two dashes.
FROM viewer AS kernels
USER root
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir -r kernels/requirements.txt
USER viewer
