# Image of the command line: docker build -f deployments/docker/emcoctl.Dockerfile -t emco/emcoctl .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /emco
COPY src src
COPY scripts/release/build.sh scripts/release/
ARG TARGETOS TARGETARCH VERSION COMMIT
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/release/build.sh emcoctl out/emcoctl

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /emco/out/emcoctl /usr/local/bin/emcoctl
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/emcoctl"]
