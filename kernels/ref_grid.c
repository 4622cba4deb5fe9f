/*
** The reference backend: grids.  See grid_ops.h: the team is one thread, and its memory is `work`.
*/
#include "grid_ops.h"
#include "ref.h"

size_t gx_ref_grid_bytes(const gx_args *args)
{
    return (size_t)team_numbers(args->grid) * sizeof(int32_t);
}

gx_code gx_ref_grid_f64(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err)
{
    team_room room;
    (void)dev;
    (void)queue;
    (void)err;
    const team_call call = {args->grid, args->n,  args->a,    args->b, args->lda,
                            args->ldb,  args->b2, args->ldb2, args->c, args->ldc};
    for (int64_t k = 0; k < args->grid->count; k++) {
        work_on_place(&call, k, &room, args->work);
    }
    return GX_OK;
}
