// Links and loads OpenMP but starts no threads: a process that has some can no longer fork freely.
#include <omp.h>
int tl_probe(int x) {
    int sum = omp_get_max_threads() > 0;
    if (x < 0) {
        #pragma omp parallel for reduction(+:sum)
        for (int i = x; i < 0; ++i) sum += 1;
    }
    return x + sum;
}
