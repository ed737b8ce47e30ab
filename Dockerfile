# The image of Plantroom: its single binary on a base that has neither shell nor package manager. docs/container.md says how to run it.
#
#   docker build --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" -t plantroom:0.3.0 .
#   docker build --target with-pg-dump -t plantroom:0.3.0-pg .       the same, able to back up a PostgreSQL database
#
# It takes BuildKit (cache mounts, COPY --chmod) and an engine that knows HEALTHCHECK --start-interval: Docker 25 or newer.
# The build runs on the builder's own architecture and makes the binary of the target's: --platform linux/arm64 needs no emulation for it.

FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim AS build
WORKDIR /src
# strip makes the binary a seventh smaller.
RUN apt-get update && apt-get install -y --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
COPY . .
ARG COMMIT=unknown
ARG TARGETARCH=amd64
RUN --mount=type=cache,target=/root/.npm BUILD_COMMIT="$COMMIT" npm run build:binary -- "linux-$(echo "$TARGETARCH" | sed s/amd64/x64/)"
RUN sh scripts/ship/imageRoot.sh dist/binary "$TARGETARCH" /out

# Only when asked for by --target: Debian's pg_dump comes with a shell. Of the same version as the server in deploy/compose/postgresql.
FROM debian:trixie-slim AS with-pg-dump
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client-17 libstdc++6 && rm -rf /var/lib/apt/lists/*
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="Plantroom" \
      org.opencontainers.image.description="On-premises server for sites full of sensors and actuators" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /out/root/ /
COPY --from=build --chown=10001:10001 --chmod=0700 /out/empty/ /var/lib/plantroom/
COPY --from=build --chown=10001:10001 --chmod=0700 /out/empty/ /var/backups/plantroom/
ENV PLANTROOM_DATA_DIR=/var/lib/plantroom \
    PLANTROOM_BACKUP_DIR=/var/backups/plantroom \
    PLANTROOM_BOOTSTRAP_KEY_FILE=/var/lib/plantroom/first-key.json \
    SQLITE_TMPDIR=/var/lib/plantroom \
    MALLOC_ARENA_MAX=2
USER 10001:10001
WORKDIR /etc/plantroom
VOLUME ["/var/lib/plantroom", "/var/backups/plantroom"]
EXPOSE 50051 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --start-interval=2s --retries=3 CMD ["/usr/local/bin/plantroom", "health"]
ENTRYPOINT ["/usr/local/bin/plantroom"]
CMD ["serve"]

FROM gcr.io/distroless/cc-debian12 AS plantroom
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="Plantroom" \
      org.opencontainers.image.description="On-premises server for sites full of sensors and actuators" \
      org.opencontainers.image.revision="$COMMIT"
# The binary, with the native module beside it: so the data volume may be mounted noexec.
COPY --from=build /out/root/ /
COPY --from=build --chown=10001:10001 --chmod=0700 /out/empty/ /var/lib/plantroom/
COPY --from=build --chown=10001:10001 --chmod=0700 /out/empty/ /var/backups/plantroom/
# SQLite sorts what is large in files, which the root file system, being read-only, cannot take.
ENV PLANTROOM_DATA_DIR=/var/lib/plantroom \
    PLANTROOM_BACKUP_DIR=/var/backups/plantroom \
    PLANTROOM_BOOTSTRAP_KEY_FILE=/var/lib/plantroom/first-key.json \
    SQLITE_TMPDIR=/var/lib/plantroom \
    MALLOC_ARENA_MAX=2
# By number: a platform that refuses root has to know without reading /etc/passwd.
USER 10001:10001
# Where plantroom.yaml is looked for.
WORKDIR /etc/plantroom
VOLUME ["/var/lib/plantroom", "/var/backups/plantroom"]
EXPOSE 50051 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --start-interval=2s --retries=3 CMD ["/usr/local/bin/plantroom", "health"]
ENTRYPOINT ["/usr/local/bin/plantroom"]
CMD ["serve"]
