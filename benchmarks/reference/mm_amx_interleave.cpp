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

constexpr int rows = 256, row_bytes = 1024, samples = 6, passes = 64;

static double pass_ns(bool full, double ns_per_tick) {
    int stride = full ? 2 * row_bytes : row_bytes;
    uint8_t* one = full ? reinterpret_cast<uint8_t*>(aligned_alloc(64, 2 * rows * row_bytes)) : nullptr;
    std::vector<double> found;
    std::atomic<int> begun{0}, done{0};
#pragma omp parallel num_threads(2)
    {
        int ithr = omp_get_thread_num();
        uint8_t* own = full ? nullptr : reinterpret_cast<uint8_t*>(aligned_alloc(64, rows * row_bytes));
        uint8_t* to = full ? one + ithr * row_bytes : own;
        for (int sample = 0; sample < samples; sample++) {
#pragma omp barrier
            begun++;
            do
                my_memset(to, stride, rows, row_bytes);
            while (begun < 2 * (sample + 1));
            auto start = __rdtsc();
            for (int pass = 0; pass < passes; pass++)
                my_memset(to, stride, rows, row_bytes);
            auto ticks = __rdtsc() - start;
            for (done++; done < 2 * (sample + 1);)
                my_memset(to, stride, rows, row_bytes);
#pragma omp critical
            found.push_back(ticks * ns_per_tick / passes);
        }
        free(own);
    }
    free(one);
    std::sort(found.begin(), found.end());
    return found[found.size() / 2];
}

int main(int, char** argv) {
    double ns_per_tick = 1e9 / atof(argv[1]);
    auto full = pass_ns(true, ns_per_tick), part = pass_ns(false, ns_per_tick);
    printf("%.1f %.1f\n", full, part);
}
