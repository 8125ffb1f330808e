# Image of candor-web for deploy/helm/candor: contains only the static binary.
#   make candor-web && docker build -f deploy/web.Dockerfile -t candor-web:0.1.0 bin
FROM scratch
COPY candor-web /candor-web
ENTRYPOINT ["/candor-web"]
