/*
** What gx's sparse direct solves are measured against: CHOLMOD called from C, with its defaults.
**
**   cholmod SIDE ROUNDS     the 5-point grid of SIDE x SIDE points, b of ones: analysis,
**                           factorisation and solution, `ROUNDS` times; prints the median of their
**                           sum in seconds, and |b - A x| / |b| of the last
**
** cc -O2 bench/cholmod.c -lcholmod -o cholmod; bench/sparse_cpu.py does so.
*/
#include <suitesparse/cholmod.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The grid's upper triangle, by columns. */
static cholmod_sparse *grid(SuiteSparse_long side, cholmod_common *c)
{
    SuiteSparse_long n = side * side, e = 0;
    cholmod_sparse *A = cholmod_l_allocate_sparse(n, n, 3 * n, 1, 1, 1, CHOLMOD_REAL, c);
    SuiteSparse_long *start = A->p, *index = A->i;
    double *value = A->x;
    for (SuiteSparse_long j = 0; j < n; j++) {
        start[j] = e;
        if (j >= side) {
            index[e] = j - side;
            value[e++] = -1;
        }
        if (j % side > 0) {
            index[e] = j - 1;
            value[e++] = -1;
        }
        index[e] = j;
        value[e++] = 4;
    }
    start[n] = e;
    return A;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 1;
    cholmod_common c;
    cholmod_l_start(&c);
    cholmod_sparse *A = grid(argc > 1 ? atol(argv[1]) : 100, &c);
    cholmod_dense *b = cholmod_l_ones(A->nrow, 1, CHOLMOD_REAL, &c), *x = NULL;
    double *seconds = calloc((size_t)rounds, sizeof *seconds);
    for (int k = 0; k < rounds; k++) {
        cholmod_l_free_dense(&x, &c);
        double start = now();
        cholmod_factor *L = cholmod_l_analyze(A, &c);
        cholmod_l_factorize(A, L, &c);
        x = cholmod_l_solve(CHOLMOD_A, L, b, &c);
        seconds[k] = now() - start;
        cholmod_l_free_factor(&L, &c);
    }
    double minus[2] = {-1, 0}, one[2] = {1, 0};
    cholmod_dense *r = cholmod_l_copy_dense(b, &c);
    cholmod_l_sdmult(A, 0, minus, one, x, r, &c);
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_size);
    printf("%.6f %.3g\n", seconds[rounds / 2],
           cholmod_l_norm_dense(r, 2, &c) / cholmod_l_norm_dense(b, 2, &c));
    cholmod_l_free_dense(&r, &c);
    cholmod_l_free_dense(&x, &c);
    cholmod_l_free_dense(&b, &c);
    cholmod_l_free_sparse(&A, &c);
    cholmod_l_finish(&c);
    free(seconds);
    return 0;
}
