"""Digits of primes, counted by a pool of processes: one for each CPU that Python sees (os.cpu_count)."""
import multiprocessing
import sys


def primes(part):
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(part * 1000 + 2, part * 1000 + 1002))


if __name__ == "__main__":
    parts = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with multiprocessing.Pool() as pool:
        print(sum(pool.map(primes, range(parts), chunksize=4)))
