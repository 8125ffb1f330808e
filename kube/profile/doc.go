// Package profile merges the settings of a container from four sources. In order of precedence, they are the pod's annotations, the
// CPUProfiles of the pod's namespace, the namespace's labels, and the defaults. The package calls no API server: its callers read the
// objects.
package profile
