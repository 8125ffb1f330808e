// Work for the threads of Node.js. Usage: node pool.js workers|libuv [PARTS]
//   workers: counts primes in worker threads, one for each CPU that Node.js sees (os.availableParallelism)
//   libuv:   derives keys (crypto.pbkdf2) in the thread pool of libuv, whose size is UV_THREADPOOL_SIZE (default 4)
'use strict';
const crypto = require('crypto');
const os = require('os');
const { Worker, isMainThread, parentPort } = require('worker_threads');

// primes returns the number of primes in a part: 1,000 consecutive numbers.
function primes(part) {
  let found = 0;
  for (let n = part * 1000 + 2; n < part * 1000 + 1002; n++) {
    let prime = true;
    for (let d = 2; prime && d * d <= n; d++) prime = n % d !== 0;
    if (prime) found++;
  }
  return found;
}

// countInWorkers divides the parts between the workers. A worker gets the next part when it has finished the previous part.
function countInWorkers(parts) {
  const threads = os.availableParallelism ? os.availableParallelism() : os.cpus().length;
  let next = 0;
  let sum = 0;
  let running = threads;
  for (let i = 0; i < threads; i++) {
    const worker = new Worker(__filename);
    worker.on('message', (found) => {
      sum += found;
      if (next < parts) return worker.postMessage(next++);
      worker.terminate();
      if (--running === 0) console.log(`${threads} workers, ${sum} primes`);
    });
    worker.postMessage(next++);
  }
}

function deriveKeys(parts) {
  let left = parts;
  for (let part = 0; part < parts; part++) {
    crypto.pbkdf2('password', `salt ${part}`, 2000, 32, 'sha256', (err) => {
      if (err) throw err;
      if (--left === 0) console.log(`${parts} keys`);
    });
  }
}

if (!isMainThread) {
  parentPort.on('message', (part) => parentPort.postMessage(primes(part)));
} else {
  const [mode, parts] = [process.argv[2], Math.max(Number(process.argv[3] || 400), os.cpus().length)];
  const work = { workers: countInWorkers, libuv: deriveKeys }[mode];
  if (!work || !Number.isInteger(parts)) {
    console.error('usage: node pool.js workers|libuv [PARTS]');
    process.exit(2);
  }
  work(parts);
}
