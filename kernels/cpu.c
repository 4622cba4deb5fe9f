/*
** The CPU backend: facts about the processor, and the kernel table.
**
** Speeds are left 0: the planner's hardware profile measures them.
*/
#include "cpu.h"

#include "../core/base/mem.h"

#include <stdio.h>
#include <string.h>

static int cpu_count(void)
{
    return 1;
}

/* The device has no state of its own: any pointer that is not NULL will do. */
static gx_code cpu_open(int ordinal, gx_dev **dev, gx_err *err)
{
    static const char state = 0;
    *dev = NULL;
    if (ordinal != 0) {
        return gx_fail(err, GX_ARG, "cpu has 1 device, not number %d", ordinal);
    }
    gx_cpu_gate_open();
    *dev = (gx_dev *)(uintptr_t)&state;
    return GX_OK;
}

static void cpu_close(gx_dev *dev)
{
    (void)dev;
}

/* "cpu Intel(R) Xeon(R) Processor" where the system tells the model, else "cpu". */
static void read_model(char *name, size_t bytes)
{
    snprintf(name, bytes, "cpu");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) {
        return;
    }
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, bytes, "cpu%.*s", (int)bytes - 4, colon + 1);
            break;
        }
    }
    fclose(file);
}

static gx_code cpu_info(gx_dev *dev, gx_dev_info *info, gx_err *err)
{
    (void)dev;
    (void)err;
    memset(info, 0, sizeof *info);
    read_model(info->name, sizeof info->name);
    info->is_host = true;
    info->total_bytes = gx_mem_physical();
    info->free_bytes = gx_mem_physical_free();
    return GX_OK;
}

/*
** A linker that goes through archives once has passed libgx.a when it meets LAPACK's call of this
** routine (fortran_shim.c): the reference here takes it along.
*/
void _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes, const char *a,
                             size_t b_bytes, const char *b);
__attribute__((used)) static void (*const fortran_shim)(size_t, char *, size_t, const char *,
                                                        size_t,
                                                        const char *) = _gfortran_concat_string;

const gx_backend gx_backend_cpu = {
    .abi = GX_BACKEND_ABI,
    .name = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .kernel =
        {
            [GX_GEMM] = GX_SLOTS(gx_cpu_gemm),
            [GX_SYRK] = GX_SLOTS(gx_cpu_syrk),
            [GX_HERK] = GX_SLOTS(gx_cpu_herk),
            [GX_FILL] = GX_SLOTS(gx_cpu_fill),
            [GX_COPY] = GX_SLOTS(gx_cpu_copy),
            [GX_TRANSPOSE] = GX_SLOTS(gx_cpu_transpose),
            [GX_MAP] = GX_SLOTS(gx_cpu_map),
            [GX_SYMMETRIZE] = GX_SLOTS(gx_cpu_symmetrize),
            [GX_PAIR] = GX_SLOTS(gx_cpu_pair),
            [GX_REDUCE] = GX_SLOTS(gx_cpu_reduce),
            [GX_APART] = GX_SLOTS(gx_cpu_apart),
            [GX_SPMM] = GX_SLOTS(gx_cpu_spmm),
            [GX_MERIT] = GX_SLOTS(gx_cpu_merit),
            [GX_NEAREST] = GX_SLOTS(gx_cpu_nearest),
            [GX_MUTUAL] = GX_SLOTS(gx_cpu_mutual),
            [GX_TRIANGLE] = GX_SLOTS(gx_cpu_triangle),
            [GX_TRSM] = GX_SLOTS(gx_cpu_trsm),
            [GX_TRMM] = GX_SLOTS(gx_cpu_trmm),
            [GX_POTRF] = GX_SLOTS(gx_cpu_potrf),
            [GX_GETRF] = GX_SLOTS(gx_cpu_getrf),
            [GX_LASWP] = GX_SLOTS(gx_cpu_laswp),
            [GX_GEQRF] = GX_SLOTS(gx_cpu_geqrf),
            [GX_LARFT] = GX_SLOTS(gx_cpu_larft),
            [GX_LARFB] = GX_SLOTS(gx_cpu_larfb),
            [GX_ORMQR] = GX_SLOTS(gx_cpu_ormqr),
            [GX_ORGQR] = GX_SLOTS(gx_cpu_orgqr),
            [GX_TPQRT] = GX_SLOTS(gx_cpu_tpqrt),
            [GX_TPMQRT] = GX_SLOTS(gx_cpu_tpmqrt),
            [GX_SYEV] = GX_SLOTS(gx_cpu_syev),
            [GX_GEEV] = GX_SLOTS(gx_cpu_geev),
            [GX_GEES] = GX_SLOTS(gx_cpu_gees),
            [GX_TREXC] = GX_SLOTS(gx_cpu_trexc),
            [GX_GESDD] = GX_SLOTS(gx_cpu_gesdd),
            [GX_FUSED] = GX_SLOTS(gx_cpu_fused),
        },
    .workspace = gx_cpu_workspace,
};
