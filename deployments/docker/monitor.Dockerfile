# Image of the monitor: docker build -f deployments/docker/monitor.Dockerfile -t emco/monitor .
FROM golang:1.26 AS build
WORKDIR /emco/src
COPY src .
# Without the workspace, the build needs only the sums of this module.
RUN cd monitor && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /monitor .

FROM gcr.io/distroless/static:nonroot
COPY --from=build /monitor /monitor
ENTRYPOINT ["/monitor"]
