/*
** Pools of an accelerator: see pool.h.
**
** Page-locked buffers come in powers of two, device buffers in eight sizes a power of two (at most
** an eighth is wasted, and a program's buffers are of few sizes anyway).  Both kinds stand in
** one table of idle buffers each, small enough to be searched: a call uses some dozens.  A table
** that is full makes room by giving a buffer back to the system.
**
** Kept blocks are device buffers with a key.  The next program claims the ones it will load before
** anything else is taken, so what a shortage evicts is what this call does not use; among those the
** one used longest ago goes first.
**
** What AGE_MOST programs have not used is given back before anything new is allocated: sizes that
** no longer occur, blocks of matrices that have been replaced.  So a pool stops growing, and one
** that serves the same programs again and again neither allocates nor frees.
*/
#include "pool.h"

#include "../store/store.h"

#include <assert.h>
#include <string.h>

enum { IDLE_MOST = 256, KEPT_MOST = 1024, AGE_MOST = 64 };

static const size_t PINNED_LEAST = (size_t)64 << 10; /* below, a page-locked page is mostly waste */
static const size_t DEVICE_LEAST = (size_t)4 << 10;

/* A buffer that nobody uses: idle, or with a block that is kept. */
typedef struct idle {
    void *data;
    size_t bytes;
    int64_t used;     /* tick of its last use     */
    int64_t program;  /* that used it last        */
    gx_block_key key; /* of a kept one: file is not 0 */
} idle;

typedef struct table {
    idle item[KEPT_MOST];
    int count;
} table;

struct gx_pool {
    const gx_backend *backend;
    gx_dev *dev;
    gx_mem *mem;
    gx_stats *stats;
    table pinned, device, kept;
    size_t pinned_bytes, device_bytes; /* lent and not */
    int64_t tick;
    int64_t program; /* how many there have been */
    gx_growth grown; /* in the latest            */
    int ordinal;     /* in stats; -1: in none    */
    int64_t lent;    /* device buffers           */
};

/* What the pool has, in its connection's counters. */
static void tally(const gx_pool *pool)
{
    gx_stats_device_bytes(pool->stats, pool->ordinal, pool->device_bytes, pool->pinned_bytes);
}

/* A call has so many device buffers more: with the first one it holds the device. */
static void lend(gx_pool *pool, int more)
{
    int64_t before = pool->lent;
    pool->lent += more;
    assert(pool->lent >= 0);
    if ((before == 0) != (pool->lent == 0)) {
        gx_stats_hold(pool->stats, pool->ordinal, pool->lent > 0);
    }
}

gx_code gx_pool_create(const gx_backend *backend, gx_dev *dev, gx_mem *mem, gx_stats *stats,
                       gx_pool **pool, gx_err *err)
{
    *pool = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(NULL, sizeof **pool, "pools of the device", &memory, err));
    *pool = memory;
    (*pool)->backend = backend;
    (*pool)->dev = dev;
    (*pool)->mem = mem;
    (*pool)->stats = stats;
    (*pool)->ordinal = -1;
    return GX_OK;
}

void gx_pool_number(gx_pool *pool, int ordinal)
{
    pool->ordinal = ordinal;
}

void gx_pool_free(gx_pool *pool)
{
    if (pool != NULL) {
        gx_pool_trim(pool);
        assert(pool->pinned_bytes == 0 && pool->device_bytes == 0 && "lent buffers came back");
        gx_mem_free(NULL, pool);
    }
}

/* Bytes of a table; SIZE_MAX: its items are not what they should be. */
static inline size_t table_bytes(const table *t, bool is_kept, int most)
{
    size_t bytes = 0;
    bool is_right = t->count <= most;
    for (int k = 0; k < t->count; k++) {
        bytes += t->item[k].bytes;
        is_right = is_right && t->item[k].data != NULL && (t->item[k].key.file != 0) == is_kept;
    }
    return is_right ? bytes : SIZE_MAX / 2;
}

/* Idle and kept buffers are real ones, and counted. */
static inline bool is_sound(const gx_pool *pool)
{
    return table_bytes(&pool->pinned, false, IDLE_MOST) <= pool->pinned_bytes &&
           table_bytes(&pool->device, false, IDLE_MOST) +
                   table_bytes(&pool->kept, true, KEPT_MOST) <=
               pool->device_bytes;
}

void gx_pool_begin(gx_pool *pool)
{
    assert(is_sound(pool));
    pool->program++;
    pool->grown = (gx_growth){0};
}

const gx_growth *gx_pool_grown(const gx_pool *pool)
{
    return &pool->grown;
}

size_t gx_pool_device_bytes(const gx_pool *pool)
{
    return pool->device_bytes;
}

size_t gx_pool_pinned_bytes(const gx_pool *pool)
{
    return pool->pinned_bytes;
}

// Tables of idle buffers --------------------------------------------------------------------------

/* The buffer of this very size that was used last, out of the table; NULL: none. */
static void *table_take(table *t, size_t bytes)
{
    int best = -1;
    for (int k = 0; k < t->count; k++) {
        if (t->item[k].bytes == bytes && (best < 0 || t->item[k].used > t->item[best].used)) {
            best = k;
        }
    }
    if (best < 0) {
        return NULL;
    }
    void *data = t->item[best].data;
    t->item[best] = t->item[--t->count];
    return data;
}

/* How many there are of this very size. */
static int64_t table_count(const table *t, size_t bytes)
{
    int64_t count = 0;
    for (int k = 0; k < t->count; k++) {
        count += t->item[k].bytes == bytes;
    }
    return count;
}

/* A buffer that programs up to and with `program` used last, out of the table; false: none. */
static bool table_aged(table *t, int64_t program, idle *out)
{
    for (int k = 0; k < t->count; k++) {
        if (t->item[k].program <= program) {
            *out = t->item[k];
            t->item[k] = t->item[--t->count];
            return true;
        }
    }
    return false;
}

/* The buffer used longest ago, out of the table; false when it is empty. */
static bool table_oldest(table *t, idle *out)
{
    int best = 0;
    for (int k = 1; k < t->count; k++) {
        best = t->item[k].used < t->item[best].used ? k : best;
    }
    if (t->count == 0) {
        return false;
    }
    *out = t->item[best];
    t->item[best] = t->item[--t->count];
    return true;
}

// Page-locked buffers -----------------------------------------------------------------------------

static size_t pinned_bucket(size_t bytes)
{
    size_t bucket = PINNED_LEAST;
    while (bucket < bytes && bucket <= SIZE_MAX / 2) {
        bucket *= 2;
    }
    return bucket;
}

static void unpin(gx_pool *pool, const idle *item)
{
    assert(item->bytes <= pool->pinned_bytes);
    pool->backend->unpin(pool->dev, item->data);
    pool->pinned_bytes -= item->bytes;
    tally(pool);
}

/* Is there room in the budget for so many bytes more?  Idle buffers make it. */
static bool has_pinned_room(gx_pool *pool, size_t bytes, size_t budget)
{
    idle old;
    while ((bytes > budget || pool->pinned_bytes > budget - bytes) &&
           table_oldest(&pool->pinned, &old)) {
        unpin(pool, &old);
    }
    return bytes <= budget && pool->pinned_bytes <= budget - bytes;
}

/* Page-locked, or NULL. */
static void *pin(gx_pool *pool, size_t bucket, size_t budget)
{
    void *data = table_take(&pool->pinned, bucket);
    if (data != NULL) {
        gx_stats_add(pool->stats, GX_STAT_PINNED_HITS, 1);
        return data;
    }
    if (pool->backend->pin == NULL) {
        return NULL;
    }
    gx_stats_add(pool->stats, GX_STAT_PINNED_MISSES, 1);
    idle old;
    while (table_aged(&pool->pinned, pool->program - AGE_MOST, &old)) {
        unpin(pool, &old);
    }
    gx_err refusal = {0};
    if (!has_pinned_room(pool, bucket, budget)) {
        return NULL;
    }
    if (pool->backend->pin(pool->dev, bucket, &data, &refusal) != GX_OK) {
        refusal.bytes = bucket;
        gx_stats_event(pool->stats, GX_EVENT_NOMEM_PINNED, NULL, &refusal);
        return NULL;
    }
    pool->pinned_bytes += bucket;
    tally(pool);
    assert(pool->pinned_bytes <= budget);
    pool->grown.pinned_bytes += (double)bucket;
    return data;
}

gx_code gx_pool_stage(gx_pool *pool, size_t bytes, size_t budget, gx_staging *out, gx_err *err)
{
    size_t bucket = pinned_bucket(bytes);
    *out = (gx_staging){.data = pin(pool, bucket, budget), .bytes = bucket, .is_pinned = true};
    if (out->data != NULL) {
        return GX_OK;
    }
    gx_stats_add(pool->stats, GX_STAT_PINNED_DENIED, 1);
    *out = (gx_staging){.bytes = bytes};
    return gx_mem_alloc(pool->mem, bytes, "a buffer for copies", &out->data, err);
}

void gx_pool_unstage(gx_pool *pool, gx_staging *staging)
{
    if (staging->data == NULL) {
        return;
    }
    if (!staging->is_pinned) {
        gx_mem_free(pool->mem, staging->data);
    } else {
        idle old;
        if (pool->pinned.count == IDLE_MOST && table_oldest(&pool->pinned, &old)) {
            unpin(pool, &old);
        }
        pool->pinned.item[pool->pinned.count++] =
            (idle){staging->data, staging->bytes, ++pool->tick, pool->program, {.file = 0}};
    }
    *staging = (gx_staging){0};
}

void gx_pool_foresee_stages(const gx_pool *pool, const size_t bytes[2], const int64_t count[2],
                            size_t budget, gx_growth *growth)
{
    size_t bucket[2] = {pinned_bucket(bytes[0]), pinned_bucket(bytes[1])};
    bool is_one = bucket[0] == bucket[1];
    double needed = 0, spare = (double)budget - (double)pool->pinned_bytes;
    for (int k = 0; k < 2 && pool->backend->pin != NULL; k++) {
        int64_t wanted = is_one ? (k == 0 ? count[0] + count[1] : 0) : count[k];
        needed +=
            (double)gx_max(0, wanted - table_count(&pool->pinned, bucket[k])) * (double)bucket[k];
    }
    growth->pinned_bytes += needed < spare ? needed : spare > 0 ? spare : 0;
}

// Device buffers ----------------------------------------------------------------------------------

size_t gx_pool_rounded(size_t bytes)
{
    if (bytes <= DEVICE_LEAST) {
        return DEVICE_LEAST;
    }
    size_t power = DEVICE_LEAST;
    while (power <= bytes / 2) {
        power *= 2;
    }
    size_t unit = power / 8;
    return (bytes + unit - 1) / unit * unit;
}

static void release(gx_pool *pool, void *data, size_t bytes)
{
    assert(bytes <= pool->device_bytes);
    (*pool->backend->free)(pool->dev, data);
    pool->device_bytes -= bytes;
    tally(pool);
}

/* Give the device the idle buffer, or else the kept block, that was used longest ago. */
static bool release_one(gx_pool *pool)
{
    idle old;
    bool is_idle = table_oldest(&pool->device, &old), is_kept = false;
    if (!is_idle) {
        is_kept = table_oldest(&pool->kept, &old);
        gx_stats_add(pool->stats, GX_STAT_DEVICE_EVICTIONS, is_kept);
    }
    if (is_idle || is_kept) {
        release(pool, old.data, old.bytes);
    }
    return is_idle || is_kept;
}

/* Give the device what has not been used for long. */
static void release_aged(gx_pool *pool)
{
    int64_t program = pool->program - AGE_MOST;
    idle old;
    while (table_aged(&pool->device, program, &old) || table_aged(&pool->kept, program, &old)) {
        release(pool, old.data, old.bytes);
    }
}

gx_code gx_pool_take(gx_pool *pool, size_t bytes, size_t limit, void **buffer, gx_err *err)
{
    size_t bucket = gx_pool_rounded(bytes);
    *buffer = table_take(&pool->device, bucket);
    if (*buffer != NULL) {
        lend(pool, 1);
        return GX_OK;
    }
    release_aged(pool);
    while ((bucket > limit || pool->device_bytes > limit - bucket) && release_one(pool)) {
    }
    if (bucket > limit || pool->device_bytes > limit - bucket) {
        return gx_fail_bytes(err, GX_NOMEM, bytes,
                             "%zu bytes of device memory: device_memory_limit leaves %zu of %zu",
                             bytes, limit > pool->device_bytes ? limit - pool->device_bytes : 0,
                             limit);
    }
    gx_err refusal = {0};
    gx_code rc = pool->backend->alloc(pool->dev, bucket, buffer, &refusal);
    if (rc == GX_NOMEM && (pool->device.count > 0 || pool->kept.count > 0)) { // others use it too
        const gx_about about = {.kind = GX_EVENT_NOMEM_DEVICE, .bytes = bucket};
        gx_stats_tell(pool->stats, &about,
                      "device memory: what earlier calls left is given back: %s", refusal.text);
    }
    while (rc == GX_NOMEM && release_one(pool)) {
        refusal = (gx_err){0};
        rc = pool->backend->alloc(pool->dev, bucket, buffer, &refusal);
    }
    if (rc != GX_OK) {
        *buffer = NULL;
        return gx_fail_bytes(err, rc, rc == GX_NOMEM ? bucket : 0, "%s", refusal.text);
    }
    lend(pool, 1);
    pool->device_bytes += bucket;
    tally(pool);
    assert(pool->device_bytes <= limit);
    pool->grown.device_bytes += (double)bucket;
    pool->grown.device_buffers++;
    return GX_OK;
}

/* A buffer that no call has becomes an idle one. */
static void put_idle(gx_pool *pool, void *buffer, size_t bytes)
{
    idle old;
    if (pool->device.count == IDLE_MOST && table_oldest(&pool->device, &old)) {
        release(pool, old.data, old.bytes);
    }
    pool->device.item[pool->device.count++] =
        (idle){buffer, gx_pool_rounded(bytes), ++pool->tick, pool->program, {.file = 0}};
    assert(is_sound(pool));
}

void gx_pool_give(gx_pool *pool, void *buffer, size_t bytes)
{
    if (buffer != NULL) {
        put_idle(pool, buffer, bytes);
        lend(pool, -1);
    }
}

void gx_pool_foresee(const gx_pool *pool, size_t bytes, int64_t count, gx_growth *growth)
{
    size_t bucket = gx_pool_rounded(bytes);
    int64_t missing = gx_max(0, count - table_count(&pool->device, bucket));
    growth->device_buffers += (double)missing;
    growth->device_bytes += (double)missing * (double)bucket;
}

size_t gx_pool_shrink(gx_pool *pool, size_t least, size_t bytes)
{
    size_t before = pool->device_bytes;
    while (pool->lent == 0 && pool->device_bytes > least && before - pool->device_bytes < bytes &&
           release_one(pool)) {
    }
    return before - pool->device_bytes;
}

void gx_pool_trim(gx_pool *pool)
{
    idle old;
    while (table_oldest(&pool->pinned, &old)) {
        unpin(pool, &old);
    }
    while (release_one(pool)) {
    }
}

// Blocks of earlier calls -------------------------------------------------------------------------

static bool is_same_key(const gx_block_key *a, const gx_block_key *b)
{
    return a->file == b->file && a->id == b->id && a->generation == b->generation &&
           a->i0 == b->i0 && a->j0 == b->j0 && a->m == b->m && a->n == b->n && a->dtype == b->dtype;
}

/* Where the block is among the kept ones; -1: nowhere. */
static int find_block(const gx_pool *pool, const gx_block_key *key, size_t bytes)
{
    int k = pool->kept.count - 1;
    while (k >= 0 && (pool->kept.item[k].bytes != gx_pool_rounded(bytes) ||
                      !is_same_key(&pool->kept.item[k].key, key))) {
        k--;
    }
    return k;
}

bool gx_pool_holds(const gx_pool *pool, const gx_block_key *key, size_t bytes)
{
    return find_block(pool, key, bytes) >= 0;
}

int gx_pool_kept(const gx_pool *pool)
{
    return pool->kept.count;
}

double gx_pool_shares(const gx_pool *pool, const gx_block_key *key)
{
    double elements = 0;
    for (int k = 0; k < pool->kept.count; k++) {
        gx_block_key part = pool->kept.item[k].key;
        double m = (double)part.m, n = (double)part.n;
        bool is_part = part.i0 >= key->i0 && part.i0 + part.m <= key->i0 + key->m &&
                       part.j0 >= key->j0 && part.j0 + part.n <= key->j0 + key->n;
        part.i0 = key->i0, part.j0 = key->j0, part.m = key->m, part.n = key->n;
        elements += is_part && m * n < (double)key->m * (double)key->n && is_same_key(&part, key)
                        ? m * n
                        : 0;
    }
    return elements;
}

void *gx_pool_claim(gx_pool *pool, const gx_block_key *key, size_t bytes)
{
    int k = find_block(pool, key, bytes);
    if (k < 0) {
        return NULL;
    }
    void *data = pool->kept.item[k].data;
    pool->kept.item[k] = pool->kept.item[--pool->kept.count];
    lend(pool, 1);
    return data;
}

/* What an earlier state of the file had is never asked for again: its buffers are idle ones. */
static void forget_past(gx_pool *pool, uint64_t now)
{
    for (int k = pool->kept.count - 1; k >= 0; k--) {
        idle past = pool->kept.item[k];
        if (gx_stamp_is_past(past.key.file, now)) {
            pool->kept.item[k] = pool->kept.item[--pool->kept.count];
            put_idle(pool, past.data, past.bytes);
        }
    }
}

void gx_pool_keep(gx_pool *pool, const gx_block_key *key, void *buffer, size_t bytes)
{
    forget_past(pool, key->file);
    void *older = buffer == NULL ? NULL : gx_pool_claim(pool, key, bytes); // one copy is enough
    gx_pool_give(pool, older, bytes);
    if (buffer == NULL || pool->kept.count == KEPT_MOST || key->file == 0) {
        gx_pool_give(pool, buffer, bytes);
        return;
    }
    pool->kept.item[pool->kept.count++] =
        (idle){buffer, gx_pool_rounded(bytes), ++pool->tick, pool->program, *key};
    lend(pool, -1);
    assert(is_sound(pool));
}

void gx_pool_forget(gx_pool *pool)
{
    while (pool->kept.count > 0) {
        idle *block = &pool->kept.item[--pool->kept.count];
        put_idle(pool, block->data, block->bytes);
    }
}
