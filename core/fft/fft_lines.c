/*
** Complex transforms of lines over the team: see fft_int.h.
**
** Lines in passes go group by group.  A line in six steps is n1 x n2 numbers: transforms of n1 over
** what lies n2 apart, a group of neighbours at a time, times the twiddles, to a line of room; then
** of n2 over what is next to each other there, whose results lie n1 apart.  Both read and write
** whole cache lines, and what is transposed is so between a load and a register.
**
** Many lines are shared out whole, a few long ones group by group.
*/
#include "fft_int.h"

/* Groups of a piece; complex numbers of a line that is shared out. */
enum { PIECE = 8, SHARED = 1 << 18 };

static bool is_double(const gx_fft_plan *plan)
{
    return plan->number == GX_C128;
}

int gx_fft_lanes(gx_number number)
{
    bool is_wide = false;
#ifdef GX_FFT_HAS_AVX2
    is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return (number == GX_C128 ? 2 : 4) << is_wide;
}

static void do_group(const gx_fft_plan *plan, const gx_fft_group *group, void *room)
{
#ifdef GX_FFT_HAS_AVX2
    if (gx_fft_lanes(plan->number) >= (is_double(plan) ? 4 : 8)) {
        (is_double(plan) ? gx_fft_group_f64_avx2 : gx_fft_group_f32_avx2)(plan, group, room);
        return;
    }
#endif
    (is_double(plan) ? gx_fft_group_f64 : gx_fft_group_f32)(plan, group, room);
}

/* One step over lines, in passes. */
typedef struct step {
    const gx_fft_plan *plan;
    gx_fft_place from, to;
    int64_t count;
    double scale;
    const gx_fft_turn *turn;
    char *room; /* of each member, room_bytes */
    size_t room_bytes;
} step;

static void *moved(const gx_fft_plan *plan, const gx_fft_place *place, int64_t line)
{
    int64_t reals = line * place->next;
    return (char *)place->data + reals * (int64_t)gx_number_bytes(plan->number) / 2;
}

static gx_code step_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const step *s = arg;
    int lanes = gx_fft_lanes(s->plan->number);
    int64_t end = gx_min(s->count, (piece + 1) * PIECE * lanes);
    (void)err;
    for (int64_t line = piece * PIECE * lanes; line < end; line += lanes) {
        gx_fft_group g = {.from = s->from,
                          .to = s->to,
                          .count = (int)gx_min(lanes, end - line),
                          .scale = s->scale,
                          .turn = s->turn,
                          .first = line};
        g.from.data = moved(s->plan, &s->from, line);
        g.to.data = moved(s->plan, &s->to, line);
        do_group(s->plan, &g, s->room + (size_t)member * s->room_bytes);
    }
    return GX_OK;
}

/* All lines of transforms, and who does them. */
typedef struct work {
    gx_run *run;
    const gx_fft_plan *plan;
    const gx_fft_lines *lines;
    char *room; /* of each member: of a group, then of a line */
    size_t room_bytes, line_bytes;
    double flops; /* says who is in the team */
} work;

/* member < 0: by the team. */
static void do_step(const work *w, step *s, int member)
{
    int64_t pieces = gx_ceil_div(s->count, (int64_t)PIECE * gx_fft_lanes(s->plan->number));
    s->room = w->room;
    s->room_bytes = w->room_bytes;
    if (member < 0) {
        gx_run_pieces(w->run, w->flops, pieces, step_piece, s);
        return;
    }
    for (int64_t piece = 0; piece < pieces && gx_ok(w->run); piece++) {
        step_piece(s, piece, member, NULL);
    }
}

gx_fft_place gx_fft_inverse_of(gx_number number, gx_fft_place place)
{
    place.data = (char *)place.data + place.part * (int64_t)gx_number_bytes(number) / 2;
    place.part = -place.part;
    return place;
}

/* A line in six steps, or in passes; room: n complex numbers. */
static void do_smooth(const work *w, const gx_fft_plan *plan, gx_fft_place from, gx_fft_place to,
                      double scale, void *room, int member)
{
    if (plan->first == NULL) {
        step s = {.plan = plan, .from = from, .to = to, .count = 1, .scale = scale};
        do_step(w, &s, member < 0 ? 0 : member);
        return;
    }
    int64_t n1 = plan->first->n, n2 = plan->second->n;
    step s = {.plan = plan->first,
              .from = {from.data, from.step * n2, from.step, from.part},
              .to = {room, 2 * n2, 2, 1},
              .count = n2,
              .scale = 1,
              .turn = &plan->turn};
    do_step(w, &s, member);
    step t = {.plan = plan->second,
              .from = {room, 2, 2 * n2, 1},
              .to = {to.data, to.step * n1, to.step, to.part},
              .count = n1,
              .scale = scale};
    do_step(w, &t, member);
}

// Chirps ------------------------------------------------------------------------------------------

/* to = from * by * scale, n elements; zeros behind them up to m. */
GX_FFT_FORCED void multiply(bool is_wide, gx_fft_place from, const void *by, double scale,
                            int64_t n, gx_fft_place to, int64_t m)
{
    for (int64_t k = 0; k < n; k++) {
        gx_scalar a = gx_fft_get(is_wide, from.data, k * from.step, from.part);
        gx_scalar b = gx_fft_get(is_wide, by, 2 * k, 1);
        gx_fft_put(
            is_wide, to.data, k * to.step, to.part,
            (gx_scalar){(a.re * b.re - a.im * b.im) * scale, (a.re * b.im + a.im * b.re) * scale});
    }
    for (int64_t k = n; k < m; k++) {
        gx_fft_put(is_wide, to.data, k * to.step, to.part, (gx_scalar){0, 0});
    }
}

static void by_chirp(const gx_fft_plan *plan, gx_fft_place from, const void *by, double scale,
                     int64_t n, gx_fft_place to, int64_t m)
{
    if (is_double(plan)) {
        multiply(true, from, by, scale, n, to, m);
    } else {
        multiply(false, from, by, scale, n, to, m);
    }
}

/* A line; room: line_bytes. */
static void do_line(const work *w, gx_fft_place from, gx_fft_place to, void *room, int member)
{
    const gx_fft_plan *plan = w->plan, *inner = plan->first;
    if (plan->chirp == NULL) {
        do_smooth(w, plan, from, to, w->lines->scale, room, member);
        return;
    }
    int64_t n = plan->n, m = inner->n;
    size_t bytes = (size_t)m * gx_number_bytes(plan->number);
    gx_fft_place a = {room, 2, 2 * m, 1}, b = {(char *)room + bytes, 2, 2 * m, 1};
    void *rest = (char *)room + 2 * bytes;
    by_chirp(plan, from, plan->chirp, 1, n, a, m);
    do_smooth(w, inner, a, b, 1, rest, member);
    by_chirp(plan, b, plan->filter, 1, m, b, m);
    do_smooth(w, inner, gx_fft_inverse_of(inner->number, b), gx_fft_inverse_of(inner->number, a), 1,
              rest, member);
    by_chirp(plan, a, plan->chirp, w->lines->scale, n, to, n);
}

// All lines ---------------------------------------------------------------------------------------

static gx_code line_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const work *w = arg;
    gx_fft_place from = w->lines->from, to = w->lines->to;
    (void)err;
    from.data = moved(w->plan, &from, piece);
    to.data = moved(w->plan, &to, piece);
    do_line(w, from, to, w->room + (size_t)member * w->room_bytes + w->room_bytes - w->line_bytes,
            member);
    return GX_OK;
}

/* Elements of the longest line that goes in passes. */
static int64_t longest(const gx_fft_plan *plan)
{
    return plan->first == NULL    ? plan->n
           : plan->second == NULL ? longest(plan->first)
                                  : gx_max(plan->first->n, plan->second->n);
}

static int64_t line_room(const gx_fft_plan *plan)
{
    return plan->first == NULL    ? 0
           : plan->second == NULL ? 2 * plan->first->n + line_room(plan->first)
                                  : plan->n;
}

/* Who does what, and the memory for it. */
static bool plan_work(gx_run *run, const gx_fft_plan *plan, int64_t count, work *w, size_t *shared)
{
    size_t element = gx_number_bytes(plan->number), line = (size_t)line_room(plan) * element;
    bool is_shared = plan->first != NULL && (count == 1 || plan->n >= SHARED);
    w->run = run;
    w->plan = plan;
    w->flops = 8 * (double)plan->n * (double)count;
    w->line_bytes = is_shared ? 0 : line;
    size_t group = 2 * (size_t)longest(plan) * (size_t)gx_fft_lanes(plan->number) * element;
    w->room_bytes = (group + w->line_bytes + 63) / 64 * 64;
    *shared = is_shared ? line : 0;
    return is_shared;
}

size_t gx_fft_own_room(const gx_fft_plan *plan)
{
    work w;
    size_t shared;
    return plan_work(NULL, plan, 1, &w, &shared) ? w.room_bytes + shared : w.room_bytes;
}

size_t gx_fft_room(gx_run *run, const gx_fft_plan *plan, int64_t lines)
{
    work w;
    size_t shared;
    plan_work(run, plan, lines, &w, &shared);
    return (size_t)run->ctx->config.number[GX_SET_THREADS] * w.room_bytes + shared;
}

/* By the thread that has the room. */
static void transform_alone(gx_run *run, const gx_fft_plan *plan, const gx_fft_lines *lines)
{
    work w = {.lines = lines, .room = lines->room};
    size_t shared;
    plan_work(run, plan, lines->count, &w, &shared);
    w.room_bytes = gx_fft_own_room(plan);
    w.line_bytes = (size_t)line_room(plan) * gx_number_bytes(plan->number);
    step s = {.plan = plan,
              .from = lines->from,
              .to = lines->to,
              .count = lines->count,
              .scale = lines->scale};
    if (plan->first == NULL) {
        do_step(&w, &s, 0);
    }
    for (int64_t k = 0; plan->first != NULL && k < lines->count && gx_ok(run); k++) {
        line_piece(&w, k, 0, NULL);
    }
}

gx_code gx_fft_transform(gx_run *run, const gx_fft_plan *plan, const gx_fft_lines *lines)
{
    work w = {.lines = lines};
    size_t shared;
    if (lines->room != NULL) {
        transform_alone(run, plan, lines);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    bool is_shared = plan_work(run, plan, lines->count, &w, &shared);
    size_t members = (size_t)gx_run_members(run, w.flops);
    w.room = gx_run_alloc(run, members * w.room_bytes, "room for transforms");
    char *room = is_shared ? gx_run_alloc(run, shared, "a line") : NULL;
    step s = {.plan = plan,
              .from = lines->from,
              .to = lines->to,
              .count = lines->count,
              .scale = lines->scale};
    if (gx_ok(run) && plan->first == NULL) {
        do_step(&w, &s, -1);
    } else if (gx_ok(run) && !is_shared) {
        gx_run_pieces(run, w.flops, lines->count, line_piece, &w);
    }
    for (int64_t line = 0; is_shared && line < lines->count && gx_run_poll(run) == GX_OK; line++) {
        gx_fft_place from = lines->from, to = lines->to;
        from.data = moved(plan, &from, line);
        to.data = moved(plan, &to, line);
        do_line(&w, from, to, room, -1);
    }
    gx_mem_free(run->ctx->mem, w.room);
    gx_mem_free(run->ctx->mem, room);
    return gx_ok(run) ? GX_OK : run->err.code;
}
