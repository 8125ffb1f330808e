# loader.py WORKERS SECONDS: the structure of a PyTorch DataLoader, without PyTorch and without a GPU. Prints batches per second and the
# latency of a step. Worker processes prepare batches on CPUs. The main thread takes the batches in order, copies each batch, starts a
# training step, and waits for its end. A pause is the stand-in for the GPU. WORKERS is a number, "cpus" for a worker for each visible CPU
# (os.cpu_count()), or "cpus-1" for one worker less.
import multiprocessing, os, sys, time, zlib

GPU = 0.002  # seconds of a training step on the stand-in for a GPU
BATCH = 1 << 20  # bytes


def cpu_work(seconds):
    """Uses CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        zlib.crc32(bytes(4096))


def prepare(queue):
    while True:
        cpu_work(0.010)
        queue.put(bytes(BATCH))


def main(workers, seconds):
    n = {"cpus": os.cpu_count(), "cpus-1": max(1, os.cpu_count() - 1)}.get(workers) or int(workers)
    queues = [multiprocessing.Queue(2) for _ in range(n)]  # a DataLoader prefetches 2 batches per worker
    processes = [multiprocessing.Process(target=prepare, args=(q,), daemon=True) for q in queues]
    for p in processes:
        p.start()
    for q in queues:
        q.get()
    latencies, start = [], time.monotonic()
    while time.monotonic() - start < seconds:
        begin = time.monotonic()
        batch = queues[len(latencies) % n].get()
        cpu_work(0.001)  # the copy of the batch to the GPU, and the start of the kernels
        time.sleep(GPU)
        assert len(batch) == BATCH
        latencies.append(time.monotonic() - begin)
    elapsed = time.monotonic() - start
    latencies.sort()
    print("workers %d batches per second: %.1f p50 ms: %.1f p99 ms: %.1f"
          % (n, len(latencies) / elapsed, 1e3 * latencies[len(latencies) // 2], 1e3 * latencies[int(len(latencies) * 0.99)]), flush=True)
    for p in processes:
        p.kill()
        p.join()
    os._exit(0)  # does not wait for the threads of the queues


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
