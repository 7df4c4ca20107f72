// Holds a queue back until the host lets go, so that what is enqueued after it runs without launch latency.
#pragma once

// release: mapped host memory; [0] is set by the host to let go, [1] is set here when the wait outlived `cycles`.
__global__ void hold(volatile int* release, long long cycles) {
  const long long begin = clock64();
  while (release[0] == 0) {
    if (clock64() - begin > cycles) {
      release[1] = 1;
      return;
    }
  }
}
