# Image of the monitor: docker build -f deployments/docker/monitor.Dockerfile -t emco/monitor .
# It needs no writable root: mount a temporary volume at /tmp.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /emco
COPY src src
COPY scripts/release/build.sh scripts/release/
ARG TARGETOS TARGETARCH VERSION COMMIT
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/release/build.sh monitor out/monitor && mkdir empty

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /emco/empty /tmp
COPY --from=build /emco/out/monitor /monitor
USER 65532:65532
ENTRYPOINT ["/monitor"]
