// Writes a line "candor-stamp=NANOSECONDS" with the time of CLOCK_MONOTONIC, at an interval. Usage: stamp MILLISECONDS
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
	long ms = argc > 1 ? atol(argv[1]) : 37;
	struct timespec interval = {ms / 1000, ms % 1000 * 1000000};
	for (;;) {
		struct timespec now;
		char line[64];
		nanosleep(&interval, 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
		int length = snprintf(line, sizeof line, "candor-stamp=%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
		if (write(1, line, length) != length)
			return 1;
	}
}
