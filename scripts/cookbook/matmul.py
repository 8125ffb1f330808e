"""Products of matrices in NumPy: the BLAS library starts its threads, and joins them at the end of each product. Usage: matmul.py [PRODUCTS]"""
import sys

import numpy

products = int(sys.argv[1]) if len(sys.argv) > 1 else 100
random = numpy.random.default_rng(1)
a, b = random.random((400, 400)), random.random((400, 400))
for _ in range(products):
    a = a @ b
    a /= abs(a).max()
print(f"{a.sum():.6f}")
