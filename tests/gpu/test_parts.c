/*
** Products that have one b between them, and c that is waited for, on a device: what passes of
** Krylov methods ask for (core/spectra/krylov_share.c).
**
** Plan, with small integers, whose sums are the same in every order:
**   1. rows of b, then the others: their sums are the product with all of it
**   2. then all of b, of which work has the pieces: b itself has been overwritten, where the device
**      says by its workspace that it keeps some; c is filled by another queue, which is waited for
**   3. other numbers in b's place, which nobody says are kept: the product with these
**   4. others again, for a product too small for pieces, and then one whose b is said to be kept:
**      as that had it, not as those before
*/
#include "../unit/kernels/factor.h"

enum { CUDA = RUNNERS - 1, TALL = 4200, FLAT = 2050, SMALL = 64 };
enum { LONG = 2100, FIRST = 1024, FEW = 17 };

typedef struct bench {
    const gx_backend *b;
    gx_dev *dev;
    gx_queue *queue, *other;
    gx_mark *mark;
    void *a, *x, *c, *work; /* TALL x LONG, LONG x FEW, TALL x FEW */
    float *host;
} bench;

static void must(gx_code code, const gx_err *err)
{
    if (code != GX_OK) {
        fail_msg("%s", err->text);
    }
}

static float number_at(int64_t i, int64_t j)
{
    return (float)((i * 7 + j * 3) % 5 - 2);
}

static void put(const bench *t, void *to, int64_t rows, int64_t cols, int64_t shift)
{
    gx_err err = {.code = GX_OK};
    size_t bytes = (size_t)(rows * cols) * sizeof *t->host;
    for (int64_t k = 0; k < rows * cols; k++) {
        t->host[k] = number_at(k % rows, k / rows + shift);
    }
    must(t->b->upload(t->dev, t->queue, to, bytes, t->host, bytes, bytes, 1, &err), &err);
    must(t->b->queue_wait(t->dev, t->queue, &err), &err);
}

static bench set_up(void)
{
    gx_err err = {.code = GX_OK};
    bench t = {.b = runners[CUDA].d.backend, .dev = runners[CUDA].d.dev};
    t.host = malloc((size_t)TALL * LONG * sizeof *t.host);
    assert_non_null(t.host);
    must(t.b->queue_create(t.dev, &t.queue, &err), &err);
    must(t.b->queue_create(t.dev, &t.other, &err), &err);
    must(t.b->mark_create(t.dev, &t.mark, &err), &err);
    must(t.b->alloc(t.dev, (size_t)TALL * LONG * sizeof *t.host, &t.a, &err), &err);
    must(t.b->alloc(t.dev, (size_t)LONG * FEW * sizeof *t.host, &t.x, &err), &err);
    must(t.b->alloc(t.dev, (size_t)TALL * FEW * sizeof *t.host, &t.c, &err), &err);
    put(&t, t.x, LONG, FEW, 1);
    put(&t, t.a, TALL, LONG, 0);
    return t;
}

static void tear_down(bench *t)
{
    void *memory[] = {t->a, t->x, t->c, t->work};
    for (int k = 0; k < 4; k++) {
        t->b->free(t->dev, memory[k]);
    }
    t->b->mark_free(t->dev, t->mark);
    t->b->queue_free(t->dev, t->queue);
    t->b->queue_free(t->dev, t->other);
    free(t->host);
}

static void add_product(const bench *t, const gx_args *args)
{
    gx_err err = {.code = GX_OK};
    must(t->b->kernel[GX_GEMM][GX_F32](t->dev, t->queue, args, &err), &err);
}

static void fill(const bench *t, gx_queue *queue, void *what, int64_t rows, double value)
{
    gx_err err = {.code = GX_OK};
    gx_args args = {.m = rows, .n = FEW, .alpha = {value, 0}, .c = what, .ldc = rows};
    must(t->b->kernel[GX_FILL][GX_F32](t->dev, queue, &args, &err), &err);
}

/* c = start + A's first rows times x, of which some are looked at; are_ones: times ones. */
static void check(const bench *t, int64_t rows, float start, bool are_ones)
{
    gx_err err = {.code = GX_OK};
    size_t bytes = (size_t)(rows * FEW) * sizeof *t->host;
    must(t->b->download(t->dev, t->queue, t->host, bytes, t->c, bytes, bytes, 1, &err), &err);
    must(t->b->queue_wait(t->dev, t->queue, &err), &err);
    for (int64_t i = 0; i < rows; i += 97) {
        for (int64_t r = 0; r < FEW; r++) {
            float sum = start;
            for (int64_t k = 0; k < LONG; k++) {
                sum += number_at(i, k) * (are_ones ? 1 : number_at(k, r + 1));
            }
            assert_true(t->host[r * rows + i] == sum);
        }
    }
}

/* Work for both parts; does it hold pieces of all of b? */
static bool make_work(bench *t, gx_args part[2])
{
    gx_err err = {.code = GX_OK};
    size_t first = t->b->workspace(t->dev, GX_GEMM, GX_F32, &part[0]);
    size_t second = t->b->workspace(t->dev, GX_GEMM, GX_F32, &part[1]);
    gx_args alone = part[0];
    alone.b_rows = 0;
    size_t bytes = 2 * (first > second ? first : second) + 1;
    must(t->b->alloc(t->dev, bytes, &t->work, &err), &err);
    part[0].work = part[1].work = t->work;
    return t->b->workspace(t->dev, GX_GEMM, GX_F32, &alone) < first;
}

static void one_b(void **state)
{
    (void)state;
    gx_err err = {.code = GX_OK};
    gx_dev_info info;
    bench t = set_up();
    gx_args all = {.m = FLAT, .n = FEW, .k = LONG, .alpha = {1, 0}, .beta = {1, 0}, .a = t.a,
                   .lda = TALL, .b = t.x, .ldb = LONG, .b_rows = LONG, .c = t.c, .ldc = FLAT};
    gx_args part[2] = {all, all};
    part[0].m = part[1].m = part[0].ldc = part[1].ldc = TALL;
    part[0].k = part[1].b_row = FIRST;
    part[0].beta.re = 0;
    part[1].k = LONG - FIRST;
    part[1].a = gx_at(t.a, GX_F32, TALL, 0, FIRST);
    part[1].b = gx_at(t.x, GX_F32, LONG, FIRST, 0);
    part[1].is_b_kept = all.is_b_kept = true;
    bool are_kept = make_work(&t, part);
    add_product(&t, &part[0]);
    add_product(&t, &part[1]);
    check(&t, TALL, 0, false);

    all.work = t.work;
    all.before_c = t.mark;
    fill(&t, t.other, t.c, FLAT, 5);
    must(t.b->mark_set(t.dev, t.other, t.mark, &err), &err);
    if (are_kept) {
        fill(&t, t.queue, t.x, LONG, NAN);
    }
    add_product(&t, &all);
    check(&t, FLAT, 5, false);

    fill(&t, t.queue, t.x, LONG, 1);
    all.is_b_kept = false;
    all.beta.re = 0;
    add_product(&t, &all);
    check(&t, FLAT, 0, true);

    put(&t, t.x, LONG, FEW, 1);
    gx_args small = all;
    small.m = SMALL;
    add_product(&t, &small);
    all.is_b_kept = true;
    add_product(&t, &all);
    check(&t, FLAT, 0, false);
    must(t.b->info(t.dev, &info, &err), &err);
    assert_true(are_kept || strstr(info.name, "Mock") == NULL);
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_b)};
    open_runners();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
