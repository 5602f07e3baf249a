/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program over MPI does to overlap: Isend, Irecv, compute, Waitall. Two ranks under mpirun:
 * `bench_mpi size=BYTES n=ROUNDS loops=N`. Rank 0 prints "median_us=U".
 */
#include "bench/rivals/pair.h"

#include <mpi.h>

#define ROUNDS_MAX 1000

int main(int argc, char **argv)
{
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        pair_fail("MPI_Init", "it fails");
    int rank = 0;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t size = pair_number(argc, argv, "size", 8);
    size_t n = pair_number(argc, argv, "n", 10);
    size_t loops = pair_number(argc, argv, "loops", 0);
    unsigned char *out = malloc(size);
    unsigned char *in = malloc(size);
    double samples[ROUNDS_MAX];
    if (out == NULL || in == NULL || n >= ROUNDS_MAX)
        pair_fail("starting", "out of memory");
    memset(out, 1, size);
    memset(in, 2, size);
    for (size_t i = 0; i <= n; i++) {
        MPI_Request requests[2];
        (void)MPI_Barrier(MPI_COMM_WORLD);
        double begin_s = pair_now_s();
        (void)MPI_Irecv(in, (int)size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
        (void)MPI_Isend(out, (int)size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
        pair_compute(loops);
        if (MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            pair_fail("MPI_Waitall", "it fails");
        if (i > 0) /* the first warms up */
            samples[i - 1] = pair_now_s() - begin_s;
    }
    if (rank == 0)
        printf("median_us=%.4f\n", pair_median(samples, n) * 1e6);
    free(out);
    free(in);
    (void)MPI_Finalize();
    return 0;
}
