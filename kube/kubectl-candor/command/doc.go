// Package command has the commands of kubectl candor. Each file holds a command: its flags, the calls that do the work, and the
// output.
package command
