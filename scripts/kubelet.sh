#!/usr/bin/env bash
# Builds a kubelet for the test that runs with a real one, once, and writes where it is.
exec "$(dirname "$0")/kubernetes.sh" kubelet
