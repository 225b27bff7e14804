# Image of the control plane: docker build -f deployments/docker/emco.Dockerfile -t emco/emco .
# With --build-arg PROGRAM=emco-temporal it is emco with a client of Temporal, under the same path (docs/hooks.md).
# It needs no writable root: mount a volume at /var/lib/emco and a temporary one at /tmp.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /emco
COPY src src
COPY scripts/release/build.sh scripts/release/
ARG PROGRAM=emco
ARG TARGETOS TARGETARCH VERSION COMMIT
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/release/build.sh $PROGRAM out/emco && mkdir empty

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /emco/empty /var/lib/emco
COPY --from=build --chown=65532:65532 /emco/empty /tmp
COPY --from=build /emco/out/emco /usr/local/bin/emco
# Authentication is off here. Publish the port on loopback, or behind a gateway. Loopback of a
# container is of no use, so the address is open (EMCO_HTTP_INSECURE); each start warns of that.
# Clients that use a name other than localhost need it in EMCO_HTTP_HOSTS.
ENV EMCO_DATA=/var/lib/emco EMCO_HTTP_ADDRESS=0.0.0.0:9015 EMCO_GRPC_ADDRESS=0.0.0.0:9016 EMCO_HTTP_INSECURE=true
USER 65532:65532
VOLUME /var/lib/emco
EXPOSE 9015 9016
ENTRYPOINT ["/usr/local/bin/emco"]
