#!/usr/bin/env bash
# Builds a kubelet for the kubelet tests, once, and prints its path.
exec "$(dirname "$0")/kubernetes.sh" kubelet
