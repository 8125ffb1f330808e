// Prints a CPU count from glibc. Usage: sysconf [onln | conf | nprocs | affinity]
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static long affinity(void) {
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) ? -1 : CPU_COUNT(&set);
}

int main(int argc, char **argv) {
	const char *source = argc > 1 ? argv[1] : "onln";
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	if (!strcmp(source, "conf"))
		n = sysconf(_SC_NPROCESSORS_CONF);
	else if (!strcmp(source, "nprocs"))
		n = get_nprocs();
	else if (!strcmp(source, "affinity"))
		n = affinity();
	printf("%ld\n", n);
	return 0;
}
