module github.com/candor-project/candor

go 1.26

require pgregory.net/rapid v1.3.0 // indirect
