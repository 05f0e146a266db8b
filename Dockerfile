# Both programs, `tidegate` and `tidegate-worker`, in one small image. They need nothing but a database.

FROM rust:1-slim-bookworm AS build
WORKDIR /build
COPY . .
# The caches keep what was compiled between builds; the programs are copied out of them, into the layer.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --profile dist --locked -p tidegate -p tidegate-workers --bins \
    && mkdir /programs \
    && cp target/dist/tidegate target/dist/tidegate-worker /programs/

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 tidegate \
    && useradd --system --uid 10001 --gid tidegate --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tidegate
COPY --from=build /programs/ /usr/local/bin/
USER 10001:10001
CMD ["tidegate", "--help"]
