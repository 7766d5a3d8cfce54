// The loop of mm_amx's interleave-write.cpp without OpenMP's barriers: each of two threads goes on at once.
// Compile with -I MM_AMX/tests -I MM_AMX/include; prints ns a pass, in one buffer and in own ones.
#include <algorithm>
#include <omp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// For each counter that it opens: a page of zeros, since a virtual machine may have no counters.
static int no_counter() {
    int fd = memfd_create("counter", 0);
    return ftruncate(fd, 4096) ? -1 : fd;
}

#define syscall(...) no_counter()
#define main mm_amx_main
#include "interleave-write.cpp"
#undef main
#undef syscall

// As a burst of the agent: two passes untimed, then samples one after another, none waiting for the other thread.
constexpr int rows = 256, row_bytes = 1024, samples = 6, passes = 18;

static double pass_ns(bool full, double ns_per_tick) {
    int stride = full ? 2 * row_bytes : row_bytes;
    uint8_t* one = full ? reinterpret_cast<uint8_t*>(aligned_alloc(4096, 2 * rows * row_bytes)) : nullptr;
    uint64_t stamps[2][samples + 1];
    std::atomic<int> done{0};
#pragma omp parallel num_threads(2)
    {
        int ithr = omp_get_thread_num();
        uint8_t* own = full ? nullptr : reinterpret_cast<uint8_t*>(aligned_alloc(4096, rows * row_bytes));
        uint8_t* to = full ? one + ithr * row_bytes : own;
        my_memset(to, stride, rows, row_bytes);
#pragma omp barrier
        for (int pass = 0; pass < 2; pass++)
            my_memset(to, stride, rows, row_bytes);
        stamps[ithr][0] = __rdtsc();
        for (int sample = 0; sample < samples; sample++) {
            for (int pass = 0; pass < passes; pass++)
                my_memset(to, stride, rows, row_bytes);
            stamps[ithr][sample + 1] = __rdtsc();
        }
        for (done++; done < 2;)
            my_memset(to, stride, rows, row_bytes);
        free(own);
    }
    free(one);
    std::vector<double> found; // the mean of both threads
    for (int sample = 1; sample < samples; sample++)
        for (int ithr = 0; ithr < 2; ithr++) {
            auto ticks = stamps[ithr][sample + 1] - stamps[ithr][sample];
            if (ithr)
                found.back() += ticks * ns_per_tick / passes / 2;
            else
                found.push_back(ticks * ns_per_tick / passes / 2);
        }
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
}

int main(int, char** argv) {
    double ns_per_tick = 1e9 / atof(argv[1]);
    auto full = pass_ns(true, ns_per_tick), part = pass_ns(false, ns_per_tick);
    printf("%.1f %.1f\n", full, part);
}
