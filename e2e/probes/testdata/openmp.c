// Prints the number of threads that an OpenMP program starts.
#include <omp.h>
#include <stdio.h>

int main(void) {
	printf("%d\n", omp_get_max_threads());
	return 0;
}
