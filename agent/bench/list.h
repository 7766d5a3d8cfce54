/* list.h: the benchmarks. A build for few of them writes its own in the place of this one. */
#ifndef FLEET_BENCH_LIST_H
#define FLEET_BENCH_LIST_H

#define BENCHMARKS(X)                                                                              \
	X(cas)                                                                                     \
	X(readwrite)                                                                               \
	X(clock)                                                                                   \
	X(message)                                                                                 \
	X(fetch)                                                                                   \
	X(contend)                                                                                 \
	X(sharing)                                                                                 \
	X(chase)                                                                                   \
	X(walk)                                                                                    \
	X(bandwidth)                                                                               \
	X(memcpy)                                                                                  \
	X(loaded)                                                                                  \
	X(interleave)                                                                              \
	X(gemm)

#endif
