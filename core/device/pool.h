/*
** Memory of an accelerator that outlives a call: page-locked host buffers, device buffers, and the
** blocks of stored matrices that are still in device memory from earlier calls.
**
** Allocating either kind costs milliseconds and stops the device, so what a call gives back stays
** in the pool, by size, for the next call of the connection.  Nothing here is thread-safe: the
** thread that runs the SQL call owns the pool.
*/
#ifndef GX_POOL_H
#define GX_POOL_H

#include "../base/backend.h"
#include "../base/mem.h"
#include "../base/stats.h"

typedef struct gx_pool gx_pool;

/* backend, dev, mem and stats are borrowed.  *pool is NULL on failure. */
gx_code gx_pool_create(const gx_backend *backend, gx_dev *dev, gx_mem *mem, gx_stats *stats,
                       gx_pool **pool, gx_err *err);
void gx_pool_free(gx_pool *pool); /* everything in it; NULL is a no-op */

/* The device's ordinal: what the pool has, and how long calls hold it, is in stats from now on. */
void gx_pool_number(gx_pool *pool, int ordinal);

/* What had to be allocated, not found in the pool. */
typedef struct gx_growth {
    double pinned_bytes, device_bytes;
    double device_buffers;
} gx_growth;

/* Since the latest gx_pool_begin(); lent. */
const gx_growth *gx_pool_grown(const gx_pool *pool);

/* A program begins; what the last 64 have not used is given back when the pool next grows. */
void gx_pool_begin(gx_pool *pool);

// Host buffers for copies -------------------------------------------------------------------------

/*
** Matrices travel to a device and back in pieces of about this size, each through a staging buffer:
** large enough for the full speed of a copy, small enough for many to be under way.  Up they are
** smaller: what all helpers have read is still in the processor's cache when it goes up.
*/
enum { GX_PIECE_BYTES = 8 << 20, GX_PIECE_UP_BYTES = 2 << 20 };

typedef struct gx_staging {
    void *data;
    size_t bytes;   /* of the bucket */
    bool is_pinned; /* false: pageable, of the connection's memory limit */
} gx_staging;

/*
** A host buffer of at least so many bytes; contents undefined.  Page-locked while all of the pool's
** page-locked bytes stay within budget and the system grants it, else pageable, counted in
** gx_stats: an error (GX_BUDGET, GX_NOMEM) only when that cannot be had either.
*/
gx_code gx_pool_stage(gx_pool *pool, size_t bytes, size_t budget, gx_staging *out, gx_err *err);
void gx_pool_unstage(gx_pool *pool, gx_staging *staging); /* data NULL is a no-op; clears it */

/* Add what staging so many buffers of two sizes would page-lock within the budget. */
void gx_pool_foresee_stages(const gx_pool *pool, const size_t bytes[2], const int64_t count[2],
                            size_t budget, gx_growth *growth);

// Device buffers ----------------------------------------------------------------------------------

/* What a buffer for so many bytes takes: the next of eight sizes a power of two. */
size_t gx_pool_rounded(size_t bytes);

/*
** A device buffer.  Never lets the pool's buffers, lent and idle ones, pass limit: idle buffers and
** then the blocks kept from earlier calls go first, the one used longest ago before others.
** GX_NOMEM: no room.  Another code: the device failed.
*/
gx_code gx_pool_take(gx_pool *pool, size_t bytes, size_t limit, void **buffer, gx_err *err);
void gx_pool_give(gx_pool *pool, void *buffer, size_t bytes); /* NULL is a no-op */

/* Add what taking so many buffers of a size would allocate. */
void gx_pool_foresee(const gx_pool *pool, size_t bytes, int64_t count, gx_growth *growth);

/*
** Give idle and kept buffers back to the device until so many bytes are freed or the pool has no
** more than `least`; none while any is lent.  What was freed.
*/
size_t gx_pool_shrink(gx_pool *pool, size_t least, size_t bytes);

/* Give everything idle or kept back to the device and the system. */
void gx_pool_trim(gx_pool *pool);

size_t gx_pool_device_bytes(const gx_pool *pool); /* lent, idle and kept */
size_t gx_pool_pinned_bytes(const gx_pool *pool); /* lent and idle       */

/* Forget the blocks of earlier calls; their buffers become idle ones. */
void gx_pool_forget(gx_pool *pool);

// Blocks of earlier calls -------------------------------------------------------------------------

/* What is in a block: a rectangle of a stored matrix as it was in one generation. */
typedef struct gx_block_key {
    uint64_t file; /* gx_store_stamp(): which database, and its state; never 0 here */
    int64_t id, generation;
    int64_t i0, j0, m, n;
    gx_number dtype;
} gx_block_key;

/*
** The buffer that holds the block, taken out of the pool's keeping: the caller's to give() or
** keep().  NULL when it is not there in a buffer of this very size.
*/
void *gx_pool_claim(gx_pool *pool, const gx_block_key *key, size_t bytes);

/* Is it there?  How many blocks are kept? */
bool gx_pool_holds(const gx_pool *pool, const gx_block_key *key, size_t bytes);
int gx_pool_kept(const gx_pool *pool);

/* Elements of the block that are there as smaller ones. */
double gx_pool_shares(const gx_pool *pool, const gx_block_key *key);

/*
** Keep a lent buffer with what it holds for a later call; where there is no place, as give().  Of
** NULL nothing is kept.  Blocks of earlier states of its file become idle buffers.
*/
void gx_pool_keep(gx_pool *pool, const gx_block_key *key, void *buffer, size_t bytes);

#endif
