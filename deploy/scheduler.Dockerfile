# Image of candor-scheduler for deploy/helm/candor: contains only the static binary.
#   make scheduler && docker build -f deploy/scheduler.Dockerfile -t candor-scheduler:0.1.0 bin
FROM scratch
COPY candor-scheduler /candor-scheduler
ENTRYPOINT ["/candor-scheduler"]
