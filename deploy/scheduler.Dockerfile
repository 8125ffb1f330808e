# The image of candor-scheduler for deploy/helm/candor: the static binary, and nothing else.
#   make scheduler && docker build -f deploy/scheduler.Dockerfile -t candor-scheduler:0.1.0 bin
FROM scratch
COPY candor-scheduler /candor-scheduler
ENTRYPOINT ["/candor-scheduler"]
