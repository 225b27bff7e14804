# The monitor's image: docker build -f deployments/docker/monitor.Dockerfile -t emco/monitor .
FROM golang:1.26 AS build
WORKDIR /emco
COPY go.work go.work.sum ./
COPY src src
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /monitor ./src/monitor

FROM gcr.io/distroless/static:nonroot
COPY --from=build /monitor /monitor
ENTRYPOINT ["/monitor"]
