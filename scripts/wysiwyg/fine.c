// Many short parallel loops, each of which ends at a barrier, in a thread for each CPU that OpenMP sees: heat that
// spreads over a small grid. A thread that is throttled, or has no CPU, holds up all others. Usage: fine [STEPS]
#include <stdio.h>
#include <stdlib.h>

#define N 512

static double grid[2][N][N];

int main(int argc, char **argv) {
	int steps = argc > 1 ? atoi(argv[1]) : 5000;
	grid[0][N / 2][N / 2] = grid[1][N / 2][N / 2] = 1e6;
	for (int s = 0; s < steps; s++) {
		double(*from)[N] = grid[s % 2], (*to)[N] = grid[1 - s % 2];
#pragma omp parallel for
		for (int y = 1; y < N - 1; y++)
			for (int x = 1; x < N - 1; x++)
				to[y][x] = 0.25 * (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]);
	}
	printf("%g\n", grid[steps % 2][N / 2][N / 2]);
	return 0;
}
