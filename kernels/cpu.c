/*
** The CPU backend: facts about the processor, and the kernel table.
**
** Speeds are left 0: the planner's hardware profile measures them.
*/
#include "cpu.h"

#include "../core/base/machine.h"

#include <stdio.h>

static gx_code cpu_open(int ordinal, gx_dev **dev, gx_err *err)
{
    gx_cpu_gate_open();
    return gx_host_open("cpu", ordinal, dev, err);
}

/* "cpu Intel(R) Xeon(R) Processor". */
static gx_code cpu_info(gx_dev *dev, gx_dev_info *info, gx_err *err)
{
    char model[sizeof info->name];
    GX_TRY(gx_host_info(dev, info, err));
    gx_machine_cpu_name(model, sizeof model);
    snprintf(info->name, sizeof info->name, "cpu %.*s", (int)sizeof info->name - 5, model);
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
    .count = gx_host_count,
    .open = cpu_open,
    .close = gx_host_close,
    .info = cpu_info,
    .kernel = {GX_CPU_KERNELS(GX_KERNEL_ROW) GX_CPU_REAL_KERNELS(GX_REAL_ROW)
                   GX_KERNELS_OF_FIELD(GX_FIELD_ROW, cpu)[GX_WHOLE][GX_F32] = gx_cpu_whole_f32,
               [GX_HAMMING][GX_F32] = gx_cpu_hamming_f32},
    .workspace = gx_cpu_workspace,
};
