// The triad of STREAM (McCalpin): a[i] = b[i] + s * c[i] over arrays that no cache holds, in a thread for each CPU that
// OpenMP sees. It is bound by the memory's bandwidth. Usage: stream [ROUNDS]
#include <stdio.h>
#include <stdlib.h>

#define N (8L << 20) // doubles: 64 MiB an array

int main(int argc, char **argv) {
	int rounds = argc > 1 ? atoi(argv[1]) : 40;
	double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = malloc(N * sizeof *c);
	if (!a || !b || !c)
		return 1;
#pragma omp parallel for
	for (long i = 0; i < N; i++) {
		a[i] = 0;
		b[i] = i;
		c[i] = 1;
	}
	for (int r = 0; r < rounds; r++) {
#pragma omp parallel for
		for (long i = 0; i < N; i++)
			a[i] = b[i] + r * c[i];
	}
	printf("%g\n", a[N - 1]);
	return 0;
}
