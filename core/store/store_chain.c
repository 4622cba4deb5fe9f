/*
** Tiles read straight from the file to where their elements go.
**
** SQLite reads a tile page by page into its cache and copies from there.  A helper's read
** transaction on a rollback-journal file keeps everybody from changing the file, so that its pages
** may as well be read by preadv(2), many in a call, each column of the tile to its place.  So does
** one on a file with a write-ahead log of which the file has everything (gx_watch.skips_log).
**
** Where a tile lies.  Its row's payload begins in a page of the b-tree and goes on in a chain of
** overflow pages, each with the number of the next one in front ("Cell Payload Overflow Pages" of
** SQLite's file format).  SQLite leads to the first one: the last byte that should be in the
** b-tree's page, which the handle holds, is read without the file, and for the byte behind it
** SQLite reads one page, of which the VFS tells where it is (gx_watch).  So that byte is the page's
** first one, whatever the record looks like.  A few bytes from there on are compared with the
** file's.  The others follow pointer by pointer, so the pages may lie anywhere.
**
** Nothing is trusted.  A pointer leads at most to other bytes of the same file, as it does in
** SQLite; a chain has as many pages as the tile needs, so that circles end; what is behind the
** file's end is not read.  Whatever is not as it should be, a page that is not there, an error, a
** page size or a record that is not what is known here, has one answer: SQLite reads, and finds the
** words.
**
** What is wanted is read page after page, many a call, on the guess that a page's neighbour is the
** next one, as in a file that was not much changed: each page's pointer comes along and tells.
** Where little of each page is wanted, runs are read alone, and pointers one by one.
**
** A thread of a pass reads tiles, or parts of one, at equal distances.  So where a read begins, and
** where the thread's latest one did, says where its next one will: the system is asked to bring
** that from the disk while the thread works, unless its last byte is in memory already.
**
** Not where pages end in bytes of somebody else's, checksums or what encryption leaves there.
**
** Memory: four bytes a page for GX_CHAINS tiles.
*/
#include <sqlite3ext.h>

#include "chain_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

enum {
    POINTER = 4,           /* bytes: what an overflow page begins with, the next one's number */
    MOST_PAGES = 1 << 16,  /* of a tile                                               */
    GAP = 512,             /* bytes nobody wants are read between others, up to so many */
    PARTS = 256,           /* of memory, in one call                                  */
    BETWEEN = 4 << 10,     /* bytes nobody wants, in a part                            */
    LOOK = 64,             /* bytes that are compared                                 */
    FARTHEST = 64,         /* reads of that size: from one to the next one            */
    LEAST_AHEAD = 64 << 10 /* bytes                                                  */
};

// One transaction ---------------------------------------------------------------------------------

static size_t page_bytes_of(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    size_t bytes = 0;
    if (sqlite3_prepare_v2(db, "PRAGMA main.page_size", -1, &stmt, NULL) == SQLITE_OK) {
        bytes = sqlite3_step(stmt) == SQLITE_ROW ? (size_t)sqlite3_column_int64(stmt, 0) : 0;
        sqlite3_finalize(stmt);
    }
    return bytes;
}

void gx_chains_begin(gx_chains *chains, sqlite3 *db, bool has_log)
{
    int reserved = -1; // asked, not set
    chains->db = db;
    chains->own = (gx_watch){.key = &gx_watch_key, .descriptor = -1};
    chains->page_bytes = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) == SQLITE_OK &&
        reserved == 0 &&
        sqlite3_file_control(db, "main", GX_FCNTL_WATCH, &chains->own) == SQLITE_OK) {
        chains->watch = &chains->own;
        chains->page_bytes = has_log && !chains->own.skips_log ? 0 : page_bytes_of(db);
    }
}

void gx_chains_join(gx_chains *chains, gx_chains *of)
{
    chains->db = of->db;
    chains->watch = of->watch;
    chains->page_bytes = of->page_bytes;
}

void gx_chains_end(gx_chains *chains)
{
    for (int k = 0; k < GX_CHAINS; k++) {
        gx_mem_free(chains->mem, chains->chain[k].page);
        chains->chain[k] = (gx_chain){0};
    }
    if (chains->watch == &chains->own) {
        (void)sqlite3_file_control(chains->db, "main", GX_FCNTL_WATCH, NULL);
    }
    chains->watch = NULL;
    chains->page_bytes = 0;
}

// Where a tile lies -------------------------------------------------------------------------------

/* Parts of memory for a call that did some of them: how many are left, *part being the first. */
static int parts_left(struct iovec **part, int parts, size_t done)
{
    while (parts > 0 && done >= (*part)->iov_len) {
        done -= (*part)->iov_len;
        ++*part;
        parts--;
    }
    if (parts > 0) {
        (*part)->iov_base = (char *)(*part)->iov_base + done;
        (*part)->iov_len -= done;
    }
    return parts;
}

/* All bytes from `at` on; false: an error, or the file's end. */
static bool read_all(int descriptor, struct iovec *part, int parts, off_t at)
{
    while (parts > 0) {
        ssize_t got = preadv(descriptor, part, parts, at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        parts = parts_left(&part, parts, (size_t)got);
    }
    return true;
}

/* Bytes of a row's header: its own length, the type of the id, which is NULL there, and that of a
** blob: 12 + 2 * bytes in seven bits a byte. */
static size_t header_bytes(size_t bytes)
{
    size_t length = 2;
    for (uint64_t type = 12 + 2 * (uint64_t)bytes; type != 0; type >>= 7) {
        length++;
    }
    return length;
}

/* How much of a payload, too long for it, the b-tree's page holds. */
static size_t local_bytes(size_t page, size_t payload)
{
    size_t most = page - 35, least = (page - 12) * 32 / 255 - 23;
    size_t local = least + (payload - least) % (page - POINTER);
    return local <= most ? local : least;
}

/* Bytes of a tile in the b-tree's own page, where that does not hold all. */
static size_t chain_start(size_t page_bytes, size_t bytes)
{
    size_t header = header_bytes(bytes);
    return local_bytes(page_bytes, header + bytes) - header;
}

static off_t place_of(const gx_chains *chains, uint32_t page)
{
    return ((off_t)page - 1) * (off_t)chains->page_bytes;
}

/* The number of the page that has the tile's byte `start` first; 0: it is not known. */
static uint32_t first_page(gx_chains *chains, sqlite3_blob *blob, size_t start, size_t bytes)
{
    char seen[LOOK], there[LOOK];
    size_t look = gx_min(LOOK, bytes - start), page_bytes = chains->page_bytes;
    int64_t *at = &chains->watch->at;
    (void)sqlite3_db_release_memory(chains->db); // what SQLite has it does not read
    *at = -1;
    if (sqlite3_blob_read(blob, seen, 1, (int)start - 1) != SQLITE_OK || *at != -1 ||
        sqlite3_blob_read(blob, seen, (int)look, (int)start) != SQLITE_OK || *at < 0 ||
        (uint64_t)*at % page_bytes != 0 || *at / (int64_t)page_bytes >= UINT32_MAX) {
        return 0;
    }
    struct iovec part = {there, look};
    bool is_equal = read_all(chains->watch->descriptor, &part, 1, *at + POINTER) &&
                    memcmp(seen, there, look) == 0;
    return is_equal ? (uint32_t)(*at / (int64_t)page_bytes + 1) : 0;
}

/* Enter what is to be known of the tile; start stays 0 where it is not read this way. */
static void locate(gx_chains *chains, gx_chain *chain, sqlite3_blob *blob)
{
    void *memory;
    gx_err ignored = {0};
    size_t bytes = (size_t)sqlite3_blob_bytes(blob), page_bytes = chains->page_bytes;
    size_t each = page_bytes - POINTER, start = chain_start(page_bytes, bytes);
    int64_t count = (int64_t)((bytes - start + each - 1) / each);
    uint32_t first = count <= MOST_PAGES ? first_page(chains, blob, start, bytes) : 0;
    if (first != 0 && gx_mem_alloc(chains->mem, (size_t)count * sizeof first, "pages of a tile",
                                   &memory, &ignored) == GX_OK) {
        chain->page = memory;
        chain->page[0] = first;
        chain->known = 1;
        chain->count = count;
        chain->start = start;
        chain->at = -1;
    }
}

gx_chain *gx_chain_known(gx_chains *chains, int64_t row)
{
    for (int k = 0; k < GX_CHAINS; k++) {
        if (chains->chain[k].row == row) {
            chains->chain[k].used = ++chains->uses;
            return &chains->chain[k];
        }
    }
    return NULL;
}

gx_chain *gx_chain_find(gx_chains *chains, sqlite3_blob *blob, int64_t row)
{
    gx_chain *chain = gx_chain_known(chains, row);
    if (chain != NULL) {
        return chain;
    }
    chain = &chains->chain[0];
    for (int k = 1; k < GX_CHAINS; k++) {
        chain = chains->chain[k].used < chain->used ? &chains->chain[k] : chain;
    }
    gx_mem_free(chains->mem, chain->page);
    *chain = (gx_chain){.row = row, .used = ++chains->uses};
    locate(chains, chain, blob);
    return chain;
}

/* A hint: bytes [at, at + bytes) of the file will be read, unless the last is in memory already. */
static void hint(int descriptor, off_t at, off_t bytes)
{
#ifdef RWF_NOWAIT
    char one;
    struct iovec part = {&one, 1};
    if (preadv2(descriptor, &part, 1, at + bytes - 1, RWF_NOWAIT) < 0 && errno == EAGAIN) {
        (void)posix_fadvise(descriptor, at, bytes, POSIX_FADV_WILLNEED);
    }
#else
    (void)descriptor;
    (void)at;
    (void)bytes;
#endif
}

void gx_chain_ahead(gx_chains *chains, gx_chain *chain, const gx_columns *c, int64_t behind)
{
    off_t page = (off_t)chains->page_bytes, offset = (off_t)c->offset, step = offset - chain->at;
    off_t bytes = (off_t)((size_t)(c->count - 1) * c->step + c->bytes);
    off_t at = place_of(chains, chain->page[0]) + offset, end = chain->count * page - bytes;
    int64_t tiles = chain->row - chains->row;
    bool is_next = chain->at >= 0 && step > 0 && step <= end - offset;
    if (chain->at < 0) { // it was found just now
        step = at - chains->at;
        is_next = step > 0 && tiles > 0 && tiles <= behind;
        chains->at = at;
        chains->row = chain->row;
    }
    if (is_next && bytes >= LEAST_AHEAD && step / FARTHEST <= bytes) {
        hint(chains->watch->descriptor, at + step - page, bytes + 3 * page);
    }
    chain->at = offset;
}

/* Page k's first bytes: to which page it leads.  false: to none, or not to the known one. */
static bool learn(gx_chain *chain, int64_t k, const unsigned char next[POINTER])
{
    uint32_t page = (uint32_t)next[0] << 24 | (uint32_t)next[1] << 16 | (uint32_t)next[2] << 8 |
                    (uint32_t)next[3];
    if (k + 1 < chain->known || k + 1 == chain->count) {
        return k + 1 == chain->count || page == chain->page[k + 1];
    }
    chain->page[chain->known] = page;
    chain->known += page != 0;
    return page != 0;
}

/* The numbers of the first `count` pages. */
static bool follow(const gx_chains *chains, gx_chain *chain, int64_t count)
{
    bool is_known = true;
    while (chain->known < count && is_known) {
        unsigned char next[POINTER];
        struct iovec part = {next, sizeof next};
        int64_t last = chain->known - 1;
        is_known =
            read_all(chains->watch->descriptor, &part, 1, place_of(chains, chain->page[last])) &&
            learn(chain, last, next);
    }
    return is_known;
}

// Reading -----------------------------------------------------------------------------------------

/* What one call is to read: bytes of the file that follow each other, into these parts. */
typedef struct batch {
    int descriptor;
    off_t first, next; /* in the file */
    int parts;
    struct iovec part[PARTS];
    char gap[GAP]; /* what nobody wants goes here */
} batch;

static bool flush(batch *b)
{
    int parts = b->parts;
    b->parts = 0;
    return parts == 0 || read_all(b->descriptor, b->part, parts, b->first);
}

static bool add(batch *b, off_t at, size_t bytes, char *dst)
{
    off_t gap = at - b->next;
    if (b->parts + 2 > PARTS || gap < 0 || gap > GAP) {
        if (!flush(b)) {
            return false;
        }
    }
    if (b->parts == 0) {
        b->first = b->next = at;
        gap = 0;
    }
    if (gap > 0) {
        b->part[b->parts++] = (struct iovec){b->gap, (size_t)gap};
    }
    b->part[b->parts++] = (struct iovec){dst, bytes};
    b->next = at + (off_t)bytes;
    return true;
}

/* Which of the chain's pages has the tile's byte `at`. */
static int64_t page_of(const gx_chains *chains, const gx_chain *chain, size_t at)
{
    return (int64_t)((at - chain->start) / (chains->page_bytes - POINTER));
}

/* Bytes [from, to) of the tile. */
static bool add_run(batch *b, const gx_chains *chains, const gx_chain *chain, size_t from,
                    size_t to, char *dst)
{
    size_t each = chains->page_bytes - POINTER;
    while (from < to) {
        size_t k = (from - chain->start) / each, in = (from - chain->start) % each;
        size_t bytes = gx_min(each - in, to - from);
        off_t at = place_of(chains, chain->page[k]) + POINTER + (off_t)in;
        if (!add(b, at, bytes, dst)) {
            return false;
        }
        from += bytes;
        dst += bytes;
    }
    return true;
}

/* Runs with much between them, each by itself. */
static bool read_apart(const gx_chains *chains, gx_chain *chain, const gx_columns *c)
{
    batch b;
    b.descriptor = chains->watch->descriptor;
    b.parts = 0;
    b.next = 0;
    for (int64_t j = 0; j < c->count; j++) {
        size_t from = c->offset + (size_t)j * c->step;
        char *dst = (char *)c->dst + (size_t)j * c->dst_step;
        if (!follow(chains, chain, page_of(chains, chain, from + c->bytes - 1) + 1) ||
            !add_run(&b, chains, chain, from, from + c->bytes, dst)) {
            return false;
        }
    }
    return flush(&b);
}

// Page after page ---------------------------------------------------------------------------------

/* What one call is to read: of neighbouring pages, the pointers and what is wanted. */
typedef struct sweep {
    off_t at;             /* in the file                                        */
    int64_t first, pages; /* of the chain                                       */
    int64_t led;          /* the first page whose pointer is read, too          */
    int parts;
    struct iovec part[PARTS];
    unsigned char next[PARTS][POINTER];
    char between[BETWEEN]; /* what nobody wants goes here */
} sweep;

/* The tile's bytes [at, end), all of the page.  false: they are too many parts. */
static bool add_page(sweep *w, const gx_columns *c, size_t at, size_t end)
{
    size_t step = c->count > 1 ? c->step : end - c->offset;
    int parts = w->parts;
    if (parts < PARTS && w->first + w->pages >= w->led) {
        w->part[parts++] = (struct iovec){w->next[w->pages], POINTER};
    }
    while (at < end && parts < PARTS) {
        size_t j = (at - c->offset) / step, from = c->offset + j * step, bytes = end - at;
        char *dst = w->between;
        if (at < from + c->bytes) {
            bytes = gx_min(bytes, from + c->bytes - at);
            dst = (char *)c->dst + j * c->dst_step + (at - from);
        } else {
            bytes = gx_min(bytes, gx_min(BETWEEN, from + step - at));
        }
        w->part[parts++] = (struct iovec){dst, bytes};
        at += bytes;
    }
    if (at < end) {
        return false;
    }
    w->parts = parts;
    w->pages++;
    return true;
}

/* Pages of the chain from that of the tile's byte `at` on, of which it is known, or a guess, that
** they are neighbours: no more than `most`. */
static void gather(sweep *w, const gx_chains *chains, const gx_chain *chain, const gx_columns *c,
                   size_t at, size_t end, int64_t most)
{
    size_t each = chains->page_bytes - POINTER;
    int64_t k = page_of(chains, chain, at);
    size_t from = chain->start + (size_t)k * each;
    bool is_neighbour = true;
    w->first = k;
    w->pages = 0;
    w->parts = 0;
    w->led = at == from ? k : k + 1;
    w->at = place_of(chains, chain->page[k]) + (off_t)(at - from) + (at == from ? 0 : POINTER);
    for (; at < end && is_neighbour && w->pages < most; k++) {
        from = chain->start + (size_t)(k + 1) * each;
        is_neighbour = add_page(w, c, at, gx_min(from, end)) &&
                       (k + 1 >= chain->known || chain->page[k + 1] == chain->page[k] + 1);
        at = from;
    }
}

/*
** All pages from the first one on, many a call, for runs with little between them.  That a page is
** followed by its neighbour is a guess, unless it is known: the pointer comes with the page, and
** says so, or where to go on.
*/
static bool read_through(const gx_chains *chains, gx_chain *chain, const gx_columns *c)
{
    size_t each = chains->page_bytes - POINTER, at = c->offset;
    size_t end = c->offset + (size_t)(c->count - 1) * c->step + c->bytes;
    int64_t most = PARTS; // pages of a call; fewer where guesses were wrong
    sweep w;
    while (at < end) {
        int64_t k = page_of(chains, chain, at), last = page_of(chains, chain, end - 1);
        bool is_whole = at == chain->start + (size_t)k * each; // its pointer comes along
        if (!follow(chains, chain, gx_min(k + 1 + !is_whole, last + 1))) {
            return false;
        }
        gather(&w, chains, chain, c, at, end, most);
        if (w.pages == 0 || !read_all(chains->watch->descriptor, w.part, w.parts, w.at)) {
            if (w.pages <= 1) {
                return false;
            }
            most = 1; // the file may end behind a page
            continue;
        }
        int64_t next = w.first + w.pages;
        most = gx_min(2 * most, PARTS);
        for (k = w.led; k < next; k++) {
            if (!learn(chain, k, w.next[k - w.first])) {
                return false;
            }
            if (k + 1 < next && chain->page[k + 1] != chain->page[k] + 1) {
                next = k + 1;
                most = k + 1 - w.first;
            }
        }
        at = chain->start + (size_t)next * each;
    }
    return true;
}

/* Is it less to read all bytes than to make a call for each pointer and each run? */
static bool is_dense(const gx_chains *chains, const gx_chain *chain, const gx_columns *c)
{
    const size_t CALL = 4 << 10; // bytes that are read while one is made
    size_t span = (size_t)(c->count - 1) * c->step + c->bytes;
    size_t wanted = (size_t)c->count * c->bytes;
    int64_t pointers = page_of(chains, chain, c->offset + span - 1) + 1 - chain->known;
    int64_t runs = c->count > 1 && c->step - c->bytes > GAP ? c->count : 0;
    return span - wanted <= (size_t)(gx_max(0, pointers) + runs) * CALL;
}

bool gx_chain_read(gx_chains *chains, gx_chain *chain, const gx_columns *c)
{
    return is_dense(chains, chain, c) ? read_through(chains, chain, c)
                                      : read_apart(chains, chain, c);
}
