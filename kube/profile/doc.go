// Package profile resolves the settings of a container from several sources: its pod's annotations, the CPUProfiles of its namespace, the
// namespace's labels, and the defaults; the first source with a value counts. It is pure: the caller reads the objects.
package profile
