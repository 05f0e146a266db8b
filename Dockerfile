# An image with the programs `tidegate`, `tidegate-worker` and `tidegate-fhevm`. They need a database only.

FROM rust:1-slim-bookworm AS build
WORKDIR /build
COPY . .
# What `GET /version` of the relayer says: the revision, which is not in the context, and `-clean` or `-dirty`.
ARG TIDEGATE_BUILD=unknown-dirty
# Cache mounts keep compiled dependencies between builds and are no part of the layer, so the programs are copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --profile dist --locked -p tidegate-cli -p tidegate-workers -p tidegate-fhevm --bins \
    && mkdir /programs \
    && cp target/dist/tidegate target/dist/tidegate-worker target/dist/tidegate-fhevm /programs/

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 tidegate \
    && useradd --system --uid 10001 --gid tidegate --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tidegate
COPY --from=build /programs/ /usr/local/bin/
USER 10001:10001
CMD ["tidegate", "--help"]
