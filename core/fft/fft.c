/*
** Transforms of matrices: see fft.h.
**
** A strip of whole lines is loaded, transformed and written; where all lines fit into a value, the
** last transform writes there, and where A is a value of the right numbers the first one reads it.
** Rows are worked on as they lie, neighbours in the lanes of vectors.
**
** A real line of even length is a complex one of half the length (real.c).  Cosine and sine
** transforms are real ones of a line that is folded (types 2 and 3), or extended (type 1); type 4
** is a complex one of 2 n.
*/
#include "fft.h"

#include "../alg/dense.h"
#include "../exec/pass.h"
#include "fft_int.h"

#include <math.h>
#include <string.h>

/* Bytes that are left to others beside a strip. */
enum { SPARE_BYTES = 64 << 10 };

/* Numbers of a line that the team shares. */
enum { LONG_LINE = 1 << 18 };

// Shapes ------------------------------------------------------------------------------------------

static bool is_trigonometric(const gx_fft_args *args)
{
    return args->kind >= GX_FFT_COSINE;
}

/* What an inverse is in truth: types 2 and 3 lead back from one another. */
static int type_of(const gx_fft_args *args)
{
    return args->is_inverse && (args->type == 2 || args->type == 3) ? 5 - args->type : args->type;
}

gx_code gx_fft_shape(const gx_fft_args *args, gx_number from, int64_t rows, int64_t cols,
                     gx_number *number, int64_t *to_rows, int64_t *to_cols, gx_err *err)
{
    bool wants_real = args->kind == GX_FFT_REAL || is_trigonometric(args);
    if (from == GX_M31) {
        return gx_fail(err, GX_ARG, "this is of floating numbers (gx_circle_fft is of m31)");
    }
    if (wants_real && gx_number_is_complex(from)) {
        return gx_fail(err, GX_ARG,
                       "this is of real numbers (gx_real, gx_imag and gx_fft are at hand)");
    }
    int64_t least = args->kind == GX_FFT_COSINE && args->type == 1 ? 2 : 1;
    if (args->n < least || args->n > (int64_t)1 << 40) {
        return gx_fail(err, GX_ARG, "n must be from %lld to 2^40, not %lld", (long long)least,
                       (long long)args->n);
    }
    bool is_single = from == GX_F32 || from == GX_C64;
    bool gives_real = args->kind == GX_FFT_REAL_INVERSE || is_trigonometric(args);
    *number = gives_real ? (is_single ? GX_F32 : GX_F64) : is_single ? GX_C64 : GX_C128;
    int64_t length = args->kind == GX_FFT_REAL ? args->n / 2 + 1 : args->n;
    *to_rows = args->axis == 0 ? length : rows;
    *to_cols = args->axis == 0 ? cols : length;
    return GX_OK;
}

double gx_fft_scale(const gx_fft_args *args)
{
    bool is_back = args->kind == GX_FFT_INVERSE || args->kind == GX_FFT_REAL_INVERSE ||
                   (is_trigonometric(args) && args->is_inverse);
    int64_t ends = !is_trigonometric(args) || args->type != 1 ? 0
                   : args->kind == GX_FFT_COSINE              ? -1
                                                              : 1;
    double n = is_trigonometric(args) ? 2 * (double)(args->n + ends) : (double)args->n;
    return args->norm == GX_FFT_ORTHO                   ? 1 / sqrt(n)
           : (args->norm == GX_FFT_BACKWARD) == is_back ? 1 / n
                                                        : 1;
}

// Strips ------------------------------------------------------------------------------------------

/* A buffer of lines of `length` numbers. */
typedef struct buffer {
    void *data;
    int64_t length, ld;
    bool is_complex;
} buffer;

enum { IN, OUT, FOLDED, SPECTRUM, BUFFERS };

typedef struct strip {
    gx_run *run;
    const gx_fft_args *args;
    int64_t n, lines;       /* n: of the real or complex transform inside */
    gx_number real, number; /* of the same precision: real, complex */
    bool is_halved;         /* a real line as n / 2 pairs           */
    gx_fft_plan *plan;
    gx_fft_turn turn, angle;
    double scale;
    void *room; /* of the thread that does the strip by itself; NULL: the team does it */
    buffer of[BUFFERS];
} strip;

/* Where lines are in it. */
static gx_fft_place place_of(const strip *s, const buffer *b)
{
    int64_t c = b->is_complex ? 2 : 1, part = b->is_complex ? 1 : 0;
    return s->args->axis == 0 ? (gx_fft_place){b->data, c, c * b->ld, part}
                              : (gx_fft_place){b->data, c * b->ld, c, part};
}

/* The same of real lines, two numbers as a complex one. */
static gx_fft_place pairs_of(const strip *s, const buffer *b)
{
    return s->args->axis == 0 ? (gx_fft_place){b->data, 2, b->ld, 1}
                              : (gx_fft_place){b->data, 2 * b->ld, 1, b->ld};
}

static void step(const strip *s, gx_fft_step_id id, const buffer *x, const buffer *y,
                 const gx_fft_turn *turn, int64_t n)
{
    gx_fft_step one = {.id = id,
                       .number = s->number,
                       .n = n,
                       .lines = s->lines,
                       .x = place_of(s, x),
                       .y = place_of(s, y),
                       .turn = turn,
                       .is_alone = s->room != NULL};
    gx_fft_do_step(s->run, &one);
}

static void transform(const strip *s, gx_fft_place from, gx_fft_place to, double scale,
                      bool is_inverse)
{
    gx_fft_lines lines = {from, to, s->lines, scale, s->room};
    if (is_inverse) {
        lines.from = gx_fft_inverse_of(s->number, from);
        lines.to = gx_fft_inverse_of(s->number, to);
    }
    if (gx_ok(s->run)) {
        gx_fft_transform(s->run, s->plan, &lines);
    }
}

/* x real -> y complex: n / 2 + 1 numbers, or all n where n is odd. */
static void from_real(const strip *s, const buffer *x, const buffer *y, double scale)
{
    transform(s, s->is_halved ? pairs_of(s, x) : place_of(s, x), place_of(s, y), scale, false);
    if (s->is_halved) {
        step(s, GX_FFT_HALVES, y, y, &s->turn, s->n);
    }
}

/* x complex, n / 2 + 1 numbers, which are destroyed -> y real. */
static void to_real(const strip *s, const buffer *x, const buffer *y, double scale)
{
    step(s, s->is_halved ? GX_FFT_PAIRS : GX_FFT_HERMITIAN, x, x, &s->turn, s->n);
    if (s->is_halved) {
        transform(s, place_of(s, x), pairs_of(s, y), scale, true);
    } else {
        transform(s, place_of(s, x), place_of(s, y), scale, false);
    }
}

/* x -> y, signs, order and ends of sine and orthonormal transforms; y may be x. */
static void dress(const strip *s, const buffer *x, const buffer *y, bool is_before)
{
    const gx_fft_args *args = s->args;
    int type = type_of(args);
    bool is_ortho = args->norm == GX_FFT_ORTHO, is_sine = args->kind == GX_FFT_SINE;
    double half = sqrt(0.5), root = sqrt(2);
    gx_fft_step one = {.id = GX_FFT_SCALE,
                       .number = s->number,
                       .n = args->n,
                       .lines = s->lines,
                       .x = place_of(s, x),
                       .y = place_of(s, y),
                       .scale = 1,
                       .first = 1,
                       .last = 1,
                       .is_alone = s->room != NULL};
    one.is_by_turns = is_sine && (type == 2) == is_before && type != 1;
    one.is_backward = is_sine && (type == 2) != is_before && type != 1;
    if (is_ortho && !is_sine && type == 1) {
        one.first = one.last = is_before ? root : half;
    } else if (is_ortho && type == 2 && !is_before) {
        one.first = is_sine ? 1 : half;
        one.last = is_sine ? half : 1;
    } else if (is_ortho && type == 3 && is_before) {
        one.first = root; // of a sine, the last one, which comes first now
    }
    if (x != y || one.is_by_turns || one.first != 1 || one.last != 1) {
        gx_fft_do_step(s->run, &one);
    }
}

/* IN -> OUT. */
static void do_trigonometric(const strip *s)
{
    const buffer *x = &s->of[IN], *y = &s->of[OUT], *t = &s->of[FOLDED], *z = &s->of[SPECTRUM];
    int64_t n = s->args->n;
    bool is_even = s->args->kind == GX_FFT_COSINE;
    dress(s, x, y, true); // OUT is free, and as long
    switch (type_of(s->args)) {
    case 1:
        step(s, is_even ? GX_FFT_EVEN : GX_FFT_ODD, y, t, NULL, n);
        from_real(s, t, z, s->scale);
        step(s, is_even ? GX_FFT_TAKE_EVEN : GX_FFT_TAKE_ODD, z, x, NULL, n);
        break;
    case 2:
        step(s, GX_FFT_FOLD, y, t, NULL, n);
        from_real(s, t, z, s->scale);
        step(s, GX_FFT_COSINES, z, x, &s->angle, n);
        break;
    case 3:
        step(s, GX_FFT_ANGLES, y, z, &s->angle, n);
        to_real(s, z, t, s->scale);
        step(s, GX_FFT_UNFOLD, t, x, NULL, n);
        break;
    default:
        step(s, GX_FFT_QUARTERS, y, z, &s->angle, n);
        transform(s, place_of(s, z), place_of(s, z), s->scale, false);
        step(s, GX_FFT_TAKE_QUARTERS, z, x, &s->angle, n);
        break;
    }
    dress(s, x, y, false);
}

static void do_strip(const strip *s)
{
    const buffer *x = &s->of[IN], *y = &s->of[OUT];
    bool is_inverse = s->args->kind == GX_FFT_INVERSE;
    if (is_trigonometric(s->args)) {
        do_trigonometric(s);
    } else if (s->args->kind == GX_FFT_REAL_INVERSE) {
        to_real(s, x, y, s->scale);
    } else if (x->is_complex) {
        transform(s, place_of(s, x), place_of(s, y), s->scale, is_inverse);
    } else {
        from_real(s, x, y, s->scale);
        if (s->args->kind != GX_FFT_REAL) {
            if (s->is_halved) {
                step(s, GX_FFT_MIRROR, y, y, NULL, s->n);
            }
            if (is_inverse) {
                step(s, GX_FFT_CONJUGATE, y, y, NULL, s->n);
            }
        }
    }
}

// What is needed ----------------------------------------------------------------------------------

/* The buffers' lengths, n, and whether a real line is halved; without memory. */
static void lay_out(gx_run *run, const gx_fft_args *args, gx_number from, strip *s)
{
    int64_t n = args->n;
    bool is_single = from == GX_F32 || from == GX_C64;
    bool is_real = !gx_number_is_complex(from);
    *s = (strip){.run = run, .args = args, .n = n, .scale = gx_fft_scale(args)};
    s->real = is_single ? GX_F32 : GX_F64;
    s->number = is_single ? GX_C64 : GX_C128;
    if (is_trigonometric(args)) {
        int type = type_of(args);
        s->n = type == 4   ? 2 * n
               : type != 1 ? n
                           : 2 * (args->kind == GX_FFT_COSINE ? n - 1 : n + 1);
        s->is_halved = type != 4 && s->n % 2 == 0;
        s->of[IN].length = s->of[OUT].length = n;
        s->of[FOLDED].length = type == 4 ? 0 : s->n;
        s->of[SPECTRUM] =
            (buffer){.length = s->is_halved ? s->n / 2 + 1 : s->n, .is_complex = true};
        return;
    }
    bool is_back = args->kind == GX_FFT_REAL_INVERSE;
    s->is_halved = (is_real || is_back) && n % 2 == 0;
    int64_t half = s->is_halved ? n / 2 + 1 : n;
    s->of[IN] = (buffer){.length = is_back ? half : n, .is_complex = is_back || !is_real};
    s->of[OUT] = (buffer){.length = args->kind == GX_FFT_REAL ? half : n, .is_complex = !is_back};
}

static size_t bytes_of_line(const strip *s)
{
    size_t bytes = 0;
    for (int k = 0; k < BUFFERS; k++) {
        bytes +=
            (size_t)s->of[k].length * gx_number_bytes(s->of[k].is_complex ? s->number : s->real);
    }
    return bytes;
}

void gx_fft_tiles(gx_run *run, const gx_fft_args *args, const gx_mat *A, const gx_sink *wanted,
                  int64_t *tile_rows, int64_t *tile_cols)
{
    strip s;
    lay_out(run, args, A->number, &s);
    const double LEAST = 8; // rows of a tile that are worth a read of their own
    bool is_rows = args->axis == 1;
    int64_t length = args->kind == GX_FFT_REAL ? args->n / 2 + 1 : args->n;
    int64_t lines = gx_max(1, is_rows ? A->rows : A->cols);
    int64_t tile = run->ctx->config.number[GX_SET_TILE_BYTES] / (int64_t)sizeof(gx_scalar);
    int64_t side = is_rows ? A->tile_rows : A->tile_cols;
    int64_t across = gx_min(lines, gx_mat_is_tiled(A) ? side : (int64_t)sqrt((double)tile));
    // Strips of each thread, and what is written beside what is made.
    double half = (double)gx_mem_available(run->ctx->mem) /
                  (double)gx_max(2, run->ctx->config.number[GX_SET_THREADS]) * 0.9;
    across = gx_max(1, gx_min(across, tile));
    int64_t asked = wanted == NULL ? 0 : is_rows ? wanted->tile_rows : wanted->tile_cols;
    double most = 0.8 * (double)gx_mem_available(run->ctx->mem); // of a strip of the whole team
    if (asked > 0 && (double)asked * (double)bytes_of_line(&s) <= most) {
        *tile_rows = wanted->tile_rows;
        *tile_cols = wanted->tile_cols;
        return;
    }
    while (across > 1 && (double)across * (double)bytes_of_line(&s) > half) {
        across /= 2;
    }
    // Whoever transforms along the other axis reads whole tiles, too.
    double fits = half / ((double)lines * 3 * sizeof(gx_scalar));
    int64_t along = gx_min(length, gx_max(1, tile / across));
    along = fits >= LEAST && fits < (double)along ? (int64_t)fits : along;
    *tile_rows = is_rows ? across : along;
    *tile_cols = is_rows ? along : across;
}

static bool make_tables(strip *s, int64_t lines)
{
    gx_run *run = s->run;
    bool are_many = 2 * lines > gx_fft_lanes(s->number);
    gx_fft_lie lie = !are_many            ? GX_FFT_ALONE
                     : s->args->axis == 0 ? GX_FFT_BY_LINES
                                          : GX_FFT_ABREAST;
    s->plan = gx_fft_plan_make(run, s->number, s->is_halved ? s->n / 2 : s->n, lie);
    if (gx_ok(run) && s->is_halved) {
        gx_fft_turn_make(run, s->number, s->n, &s->turn);
    }
    int type = is_trigonometric(s->args) ? type_of(s->args) : 1;
    if (gx_ok(run) && type != 1) {
        gx_fft_turn_make(run, s->number, s->args->n * (type == 4 ? 8 : 4), &s->angle);
    }
    return gx_ok(run);
}

static void clear(strip *s)
{
    gx_mem *mem = s->run->ctx->mem;
    gx_fft_plan_free(mem, s->plan);
    void *const tables[] = {s->turn.low, s->turn.high, s->angle.low, s->angle.high};
    for (int k = 0; k < 4; k++) {
        gx_mem_free(mem, tables[k]);
    }
}

// All lines ---------------------------------------------------------------------------------------

/*
** So many lines at once, the result's tiles whole, and room for one more that is being written, if
** there is; 0: none.
*/
static int64_t lines_at_once(const strip *s, int64_t lines, const gx_sink *C)
{
    int64_t tile = s->args->axis == 0 ? C->tile_cols : C->tile_rows, most = 0;
    size_t room = gx_fft_room(s->run, s->plan, lines) + SPARE_BYTES;
    size_t free = gx_mem_available(s->run->ctx->mem);
    size_t written =
        C->is_stored ? (size_t)(C->tile_rows * C->tile_cols) * gx_number_bytes(C->number) : 0;
    for (int k = 0; k < 2 && most == 0; k++, written = 0) {
        most = free < room + written ? 0 : (int64_t)((free - room - written) / bytes_of_line(s));
        most = most >= lines ? lines : most / tile * tile;
    }
    return most;
}

/*
** Lines first .. of A into the buffer, zeros behind them.  thread: of a pass, which reads; NULL:
** the caller has it read.
*/
static void load(const strip *s, const gx_mat *A, int64_t first, gx_pass_thread *thread)
{
    const buffer *x = &s->of[IN];
    gx_err err = {0};
    bool is_rows = s->args->axis == 1;
    gx_number number = x->is_complex ? s->number : s->real;
    int64_t there = gx_min(x->length, is_rows ? A->cols : A->rows), rest = x->length - there;
    gx_mat part;
    if (s->args->kind == GX_FFT_REAL_INVERSE) { // more of an odd line is made
        there = gx_min(there, s->args->n / 2 + 1);
        rest = x->length - there;
    }
    int64_t i0 = is_rows ? first : 0, j0 = is_rows ? 0 : first;
    int64_t m = is_rows ? s->lines : there, n = is_rows ? there : s->lines;
    if (there > 0 && thread != NULL) {
        gx_pass_read(thread, A, i0, j0, m, n, number, x->data, x->ld, &err);
        gx_run_fail(s->run, &err);
    } else if (there > 0) {
        gx_mat_view(&part, A, GX_NO_TRANS, i0, j0, m, n);
        gx_dense_load(s->run, &part, number, x->data, x->ld);
    }
    for (int64_t l = 0; !is_rows && rest > 0 && l < s->lines && gx_ok(s->run); l++) {
        memset(gx_at(x->data, number, x->ld, there, l), 0, (size_t)rest * gx_number_bytes(number));
    }
    if (is_rows && rest > 0) {
        memset(gx_at(x->data, number, x->ld, 0, there), 0,
               (size_t)(rest * x->ld) * gx_number_bytes(number));
    }
}

/* Rows i .. i + m of OUT become those that they are the conjugates of, in their order. */
GX_FFT_FORCED void turn_over(bool is_wide, const buffer *y, int64_t i, int64_t m)
{
    int64_t n = y->length;
    for (int64_t j = 0; j <= n - j; j++) {
        int64_t a = 2 * (j * y->ld + i), b = 2 * ((j == 0 ? 0 : n - j) * y->ld + i + m - 1);
        int64_t last = a / 2 / y->ld == b / 2 / y->ld ? (m + 1) / 2 : m;
        for (int64_t k = 0; k < last; k++, a += 2, b -= 2) {
            gx_scalar p = gx_fft_get(is_wide, y->data, a, 1);
            gx_scalar q = gx_fft_get(is_wide, y->data, b, 1);
            gx_fft_put(is_wide, y->data, a, 1, (gx_scalar){q.re, -q.im});
            gx_fft_put(is_wide, y->data, b, 1, (gx_scalar){p.re, -p.im});
        }
    }
}

/* Of rows first .. those that the other half of them are; what is in OUT is gone. */
static gx_code write_others(const strip *s, int64_t first, gx_sink *C, gx_err *err)
{
    const buffer *y = &s->of[OUT];
    int64_t whole = s->args->whole, i = gx_max(first, 1);
    int64_t m = gx_min(first + s->lines, (whole - 1) / 2 + 1) - i;
    if (m <= 0) {
        return GX_OK;
    }
    if (s->number == GX_C128) {
        turn_over(true, y, i - first, m);
    } else {
        turn_over(false, y, i - first, m);
    }
    return gx_sink_write(C, whole - i - m + 1, 0, m, C->cols,
                         gx_at(y->data, s->number, y->ld, i - first, 0), y->ld, err);
}

/* The transforms of lines first .. to their places in C. */
static gx_code write_lines(const strip *s, int64_t first, gx_sink *C, gx_err *err)
{
    const buffer *y = &s->of[OUT];
    if (s->args->axis == 0) {
        return gx_sink_write(C, 0, first, C->rows, s->lines, y->data, y->ld, err);
    }
    GX_TRY(gx_sink_write(C, first, 0, s->lines, C->cols, y->data, y->ld, err));
    return s->args->whole > 0 ? write_others(s, first, C, err) : GX_OK;
}

static void begin_strip(strip *s, int64_t lines)
{
    s->lines = lines;
    for (int k = 0; k < BUFFERS; k++) {
        s->of[k].ld = s->args->axis == 1 ? lines : s->of[k].length;
    }
}

/* Is A itself what the transform reads?  Only where it reads alone. */
static bool is_direct(const strip *s, const gx_mat *A)
{
    const buffer *x = &s->of[IN];
    bool is_read = s->args->kind <= GX_FFT_REAL;
    return is_read && A->kind == GX_MAT_VALUE && !A->is_sparse &&
           A->number == (x->is_complex ? s->number : s->real) &&
           (s->args->axis == 0 ? A->rows : A->cols) >= x->length;
}

static void *take(gx_run *run, const strip *s, const buffer *b, int64_t lines)
{
    return b->length == 0 ? NULL
                          : gx_dense_take(run, b->is_complex ? s->number : s->real, b->length,
                                          lines, "lines of a transform");
}

static void do_strips(strip *s, const gx_mat *A, int64_t lines, int64_t at_once, gx_sink *C)
{
    gx_run *run = s->run;
    bool is_all = at_once == lines;
    int64_t length = s->args->axis == 1 ? C->cols : C->rows;
    bool is_there = is_all && !C->is_stored && C->value.data != NULL && s->of[OUT].length == length;
    bool is_taken = is_all && is_direct(s, A);
    void *own[BUFFERS] = {NULL};
    for (int k = 0; k < BUFFERS; k++) {
        buffer *b = &s->of[k];
        bool is_lent = (k == IN && is_taken) || (k == OUT && is_there);
        own[k] = is_lent ? NULL : take(run, s, b, at_once);
        b->data = own[k];
    }
    for (int64_t first = 0; first < lines && gx_ok(run); first += at_once) {
        gx_err err = {0};
        begin_strip(s, gx_min(at_once, lines - first));
        if (is_there) {
            s->of[OUT].data = C->value.data;
        }
        if (is_taken) { // read, and nothing else
            s->of[IN].data = (void *)(uintptr_t)A->data;
            s->of[IN].ld = A->ld;
        } else {
            load(s, A, first, NULL);
        }
        if (gx_ok(run)) {
            do_strip(s);
        }
        if (gx_ok(run) && !is_there && write_lines(s, first, C, &err) != GX_OK) {
            gx_run_fail(run, &err);
        }
        gx_run_advance(run, (double)s->lines);
    }
    for (int k = 0; k < BUFFERS; k++) {
        gx_mem_free(run->ctx->mem, own[k]);
    }
}

// By threads --------------------------------------------------------------------------------------

/*
** Strips as units of a pass: each thread reads, transforms and, where C takes it from any thread,
** writes strips of its own, so that all three go on at once.  A sink that is the caller's gets them
** in order.
*/
typedef struct strips {
    const strip *s;
    const gx_mat *A;
    gx_sink *C;
    int64_t lines, at_once;
    bool is_folded; /* what is written is a part, and goes to C in order */
} strips;

/* Rows are an odd number of cache lines apart, so that they do not compete for places there. */
static int64_t ld_of(const strips *p, int k)
{
    int64_t eights = gx_ceil_div(p->at_once, 8);
    return p->s->args->axis == 0 ? p->s->of[k].length : 8 * (eights + (eights % 2 == 0));
}

static size_t bytes_of(const strips *p, int k)
{
    const buffer *b = &p->s->of[k];
    size_t element = gx_number_bytes(b->is_complex ? p->s->number : p->s->real);
    int64_t count = p->s->args->axis == 0 ? p->at_once : b->length;
    return gx_whole_lines((size_t)ld_of(p, k) * (size_t)count * element);
}

static strip strip_of(const strips *p, int64_t unit)
{
    strip s = *p->s;
    s.lines = gx_min(p->at_once, p->lines - unit * p->at_once);
    for (int k = 0; k < BUFFERS; k++) {
        s.of[k].ld = ld_of(p, k);
    }
    return s;
}

/* A few lines at a time, which stay in a cache from step to step. */
static void do_bunches(strip all)
{
    enum { BUNCH = 16 };
    strip s = all;
    for (int64_t line = 0; line < all.lines && gx_ok(s.run); line += BUNCH) {
        s.lines = gx_min(BUNCH, all.lines - line);
        for (int k = 0; k < BUFFERS; k++) {
            gx_number number = s.of[k].is_complex ? s.number : s.real;
            bool is_rows = s.args->axis == 1;
            s.of[k].data =
                gx_at(all.of[k].data, number, s.of[k].ld, is_rows ? line : 0, is_rows ? 0 : line);
        }
        do_strip(&s);
    }
}

static gx_code strip_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                          gx_err *err)
{
    const strips *p = arg;
    strip s = strip_of(p, unit);
    char *at = work;
    for (int k = 0; k < BUFFERS; k++) {
        bool is_part = k == OUT && p->is_folded;
        s.of[k].data = is_part ? part : at;
        at += is_part ? 0 : bytes_of(p, k);
    }
    s.room = at;
    load(&s, p->A, unit * p->at_once, thread);
    do_bunches(s);
    return !gx_ok(s.run) || p->is_folded ? GX_OK : write_lines(&s, unit * p->at_once, p->C, err);
}

static gx_code fold_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    const strips *p = arg;
    strip s = strip_of(p, unit);
    s.of[OUT].data = part;
    return write_lines(&s, unit * p->at_once, p->C, err);
}

/*
** The pass, with strips so long that each thread has a few of them; false: memory does not hold
** strips of two threads, or the lines are so long that the team shares each.
*/
static bool plan_pass(strips *p, gx_pass *pass)
{
    enum { UNITS = 4 }; // of a thread, at least
    const strip *s = p->s;
    gx_run *run = s->run;
    int64_t threads = run->ctx->config.number[GX_SET_THREADS];
    int64_t tile = s->args->axis == 0 ? p->C->tile_cols : p->C->tile_rows;
    p->is_folded = !gx_sink_is_shared(p->C);
    for (p->at_once = gx_ceil_div(gx_ceil_div(p->lines, UNITS * threads), tile) * tile;
         p->at_once > 0; p->at_once -= tile) {
        size_t all = 0;
        for (int k = 0; k < BUFFERS; k++) {
            all += bytes_of(p, k);
        }
        *pass = (gx_pass){
            .sources = &p->A,
            .source_count = 1,
            .units = gx_ceil_div(p->lines, p->at_once),
            .bytes =
                (double)p->A->rows * (double)p->A->cols * (double)gx_number_bytes(p->A->number),
            .flops = 40 * (double)s->n * (double)p->lines,
            .work_bytes = all + gx_fft_own_room(s->plan) - (p->is_folded ? bytes_of(p, OUT) : 0),
            .part_bytes = p->is_folded ? bytes_of(p, OUT) : 0,
            .threads = threads,
            .work = strip_unit,
            .fold = p->is_folded ? fold_strip : NULL,
            .is_callers = p->is_folded && p->C->is_stored,
            .writes = p->is_folded && p->C->is_stored ? p->C->meta.schema : NULL,
            .arg = p};
        if (gx_mem_available(run->ctx->mem) > SPARE_BYTES + 2 * gx_pass_thread_bytes(pass)) {
            return threads > 1 && s->n < LONG_LINE;
        }
    }
    return false;
}

gx_code gx_alg_fft(gx_run *run, const gx_fft_args *args, const gx_mat *A, gx_sink *C)
{
    strip s;
    int64_t lines = args->axis == 0 ? A->cols : A->rows;
    if (!gx_ok(run) || lines == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    lay_out(run, args, A->number, &s);
    if (make_tables(&s, lines)) {
        int64_t at_once = lines_at_once(&s, lines, C);
        strips all = {.s = &s, .A = A, .C = C, .lines = lines};
        gx_pass pass;
        if (at_once < lines && plan_pass(&all, &pass)) {
            gx_pass_run(run, &pass);
        } else if (at_once == 0) {
            gx_run_failf(run, GX_BUDGET,
                         "a transform of length %lld needs %.1f MiB of memory: memory_limit",
                         (long long)args->n,
                         (double)(bytes_of_line(&s) + gx_fft_room(run, s.plan, 1)) / 1048576);
        } else {
            gx_run_progress(run, (double)lines);
            do_strips(&s, A, lines, at_once, C);
        }
    }
    clear(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}
