/*
** One program for all tests of a GPU, so that OpenBLAS is in it once: gpu_tests NAME runs the tests
** of tests/NAME.c, each compiled with its main() renamed to NAME_main(); without a name, it lists
** them.
*/
#include <stdio.h>
#include <string.h>

typedef int (*program)(void);

extern int test_kernels_main(void);
extern int test_nearest_main(void);
extern int test_sparse_kernel_main(void);
extern int test_fused_main(void);
extern int test_solve_main(void);
extern int test_qr_main(void);
extern int test_eigen_main(void);
extern int test_device_main(void);
extern int test_grid_main(void);
extern int bench_device_main(void);
extern int bench_core(int argc, char **argv);
extern int bench_sparse(int argc, char **argv);

static const struct {
    const char *name;
    program run;
} programs[] = {
    {"test_device", test_device_main},   {"test_kernels", test_kernels_main},
    {"test_fused", test_fused_main},     {"test_solve", test_solve_main},
    {"test_qr", test_qr_main},           {"test_eigen", test_eigen_main},
    {"test_nearest", test_nearest_main}, {"test_sparse_kernel", test_sparse_kernel_main},
    {"bench_device", bench_device_main}, {"test_grid", test_grid_main},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench_core") == 0) {
        return bench_core(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "bench_sparse") == 0) {
        return bench_sparse(argc - 2, argv + 2);
    }
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (argc < 2) {
            printf("%s\n", programs[i].name);
        } else if (strcmp(argv[1], programs[i].name) == 0) {
            return programs[i].run();
        }
    }
    return argc < 2 ? 0 : 2;
}
