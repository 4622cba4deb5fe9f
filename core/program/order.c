/*
** Sorting a line: see order.h.
**
** A radix sort, from the lowest byte of a key that orders as the numbers do to the highest: stable,
** and linear in the length.  How often each byte occurs in each place of the key is counted in one
** pass; a place in which all keys have the same byte is left out, as the exponent's often is.
** Short lines are sorted by insertion.
**
** One rank alone is found from the highest byte to the lowest: of the keys that are still in
** question those stay whose byte is the one that the rank falls into.
**
** Memory: two copies of the line with its indexes; for a rank, one of keys.  The caller's thread,
** which asks for interrupts every CHUNK numbers.
*/
#include "order.h"

#include <math.h>
#include <string.h>

enum {
    SHORT = 96, /* insertion is quicker up to here: eight times 256 counters are not free */
    CHUNK = 1 << 16,
    PLACES = sizeof(uint64_t)
};

size_t gx_order_bytes(int64_t length)
{
    return (size_t)gx_max(1, length) * 2 * sizeof(gx_ranked);
}

size_t gx_order_pair_bytes(int64_t length)
{
    return (size_t)gx_max(1, length) * sizeof(uint64_t);
}

static bool goes_on(gx_run *run)
{
    return run == NULL || gx_run_poll(run) == GX_OK;
}

/* Orders as the numbers do: of negative ones all bits turned, of others the sign. */
static uint64_t key_of(double value)
{
    const uint64_t sign = (uint64_t)1 << 63;
    double plain = value + 0.0; // -0 is 0
    uint64_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return isnan(value) ? UINT64_MAX : (bits & sign) != 0 ? ~bits : bits | sign;
}

static double value_of(uint64_t key)
{
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits = (key & sign) != 0 ? key ^ sign : ~key;
    double value;
    memcpy(&value, &bits, sizeof value);
    return key == UINT64_MAX ? (double)NAN : value;
}

static int byte_of(uint64_t key, int place)
{
    return (int)(key >> (8 * place) & 0xff);
}

/* At most SHORT of them. */
static void insert_all(gx_ranked *line, int64_t length)
{
    uint64_t keys[SHORT];
    for (int64_t k = 0; k < length; k++) {
        gx_ranked one = line[k];
        uint64_t key = key_of(one.value);
        int64_t at = k;
        for (; at > 0 && key < keys[at - 1]; at--) {
            line[at] = line[at - 1];
            keys[at] = keys[at - 1];
        }
        line[at] = one;
        keys[at] = key;
    }
}

/* How often each byte is in each place of the keys. */
static void count_bytes(gx_run *run, const double *line, int64_t length, int64_t count[PLACES][256])
{
    memset(count, 0, PLACES * sizeof *count);
    for (int64_t start = 0; start < length && goes_on(run); start += CHUNK) {
        for (int64_t k = start; k < gx_min(start + CHUNK, length); k++) {
            uint64_t key = key_of(line[k]);
            for (int place = 0; place < PLACES; place++) {
                count[place][byte_of(key, place)]++;
            }
        }
    }
}

/* Where the first key of each byte goes. */
static void places_of(const int64_t count[256], int64_t next[256])
{
    int64_t sum = 0;
    for (int byte = 0; byte < 256; byte++) {
        next[byte] = sum;
        sum += count[byte];
    }
}

/* By one place, of which count tells.  false: interrupted, `from` is what there is. */
static bool sort_by(gx_run *run, int place, const int64_t count[256], const gx_ranked *from,
                    int64_t length, gx_ranked *to)
{
    int64_t next[256];
    places_of(count, next);
    for (int64_t start = 0; start < length; start += CHUNK) {
        if (!goes_on(run)) {
            return false;
        }
        for (int64_t k = start; k < gx_min(start + CHUNK, length); k++) {
            to[next[byte_of(key_of(from[k].value), place)]++] = from[k];
        }
    }
    return true;
}

const gx_ranked *gx_order_line(gx_run *run, const double *line, int64_t length, void *work)
{
    gx_ranked *from = work, *to = from + length;
    int64_t count[PLACES][256];
    for (int64_t k = 0; k < length; k++) {
        from[k] = (gx_ranked){line[k], k};
        if (k % CHUNK == CHUNK - 1) {
            goes_on(run);
        }
    }
    if (length <= SHORT) {
        insert_all(from, length);
        return from;
    }
    count_bytes(run, line, length, count);
    for (int place = 0; place < PLACES; place++) {
        bool is_same = count[place][byte_of(key_of(line[0]), place)] == length;
        if (is_same) {
            continue;
        }
        if (!sort_by(run, place, count[place], from, length, to)) {
            return from;
        }
        gx_ranked *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

/* key[i] of each number; false: interrupted. */
static bool make_keys(gx_run *run, const double *line, int64_t length, uint64_t *key)
{
    bool is_on = true;
    for (int64_t start = 0; start < length && is_on; start += CHUNK) {
        for (int64_t i = start; i < gx_min(start + CHUNK, length); i++) {
            key[i] = key_of(line[i]);
        }
        is_on = goes_on(run);
    }
    return is_on;
}

/* Of left keys, those whose byte is the one that *rank falls into, *rank then among them. */
static int64_t keep_byte(gx_run *run, int place, uint64_t *key, int64_t left, int64_t *rank)
{
    int64_t count[256] = {0}, kept = 0;
    int byte = 0;
    for (int64_t i = 0; i < left; i++) {
        count[byte_of(key[i], place)]++;
        if (i % CHUNK == CHUNK - 1 && !goes_on(run)) {
            return 1;
        }
    }
    while (*rank >= count[byte]) {
        *rank -= count[byte++];
    }
    for (int64_t i = 0; i < left; i++) {
        key[kept] = key[i];
        kept += byte_of(key[i], place) == byte;
        if (i % CHUNK == CHUNK - 1 && !goes_on(run)) {
            return 1;
        }
    }
    return kept;
}

void gx_order_pair(gx_run *run, const double *line, int64_t length, int64_t k, void *work,
                   double pair[2])
{
    uint64_t *key = work, next = UINT64_MAX;
    int64_t left = length, rank = k, up_to = 0;
    bool is_on = make_keys(run, line, length, key);
    for (int place = PLACES - 1; place >= 0 && left > 1 && is_on; place--) {
        left = keep_byte(run, place, key, left, &rank);
        is_on = goes_on(run);
    }
    for (int64_t i = 0; i < length && is_on; i++) {
        uint64_t one = key_of(line[i]);
        up_to += one <= key[0];
        next = one > key[0] && one < next ? one : next;
    }
    pair[0] = value_of(key[0]);
    pair[1] = value_of(up_to > k + 1 || up_to == length ? key[0] : next);
}

// How many ----------------------------------------------------------------------------------------

size_t gx_order_distinct_bytes(int64_t length)
{
    return (size_t)gx_max(1, length) * 2 * sizeof(uint64_t);
}

/* The keys by one place; false: interrupted. */
static bool sort_keys(gx_run *run, int place, const int64_t count[256], const uint64_t *from,
                      int64_t length, uint64_t *to)
{
    int64_t next[256];
    places_of(count, next);
    bool is_on = true;
    for (int64_t start = 0; start < length && is_on; start += CHUNK) {
        for (int64_t k = start; k < gx_min(start + CHUNK, length); k++) {
            to[next[byte_of(from[k], place)]++] = from[k];
        }
        is_on = goes_on(run);
    }
    return is_on;
}

int64_t gx_order_distinct(gx_run *run, const double *line, int64_t length, void *work)
{
    uint64_t *from = work, *to = from + length;
    int64_t count[PLACES][256], distinct = length > 0;
    bool is_on = make_keys(run, line, length, from);
    count_bytes(run, line, length, count);
    for (int place = 0; place < PLACES && length > 0 && is_on; place++) {
        if (count[place][byte_of(from[0], place)] == length) {
            continue;
        }
        is_on = sort_keys(run, place, count[place], from, length, to);
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }
    for (int64_t k = 1; k < length && is_on; k++) {
        distinct += from[k] != from[k - 1];
    }
    return distinct;
}

// ... where there are few -------------------------------------------------------------------------

static bool add_key(gx_few *set, uint64_t key)
{
    uint64_t at = key * 0x9e3779b97f4a7c15U >> 49; // no key is 0: that would be a NaN
    while (set->slot[at] != key) {
        if (set->slot[at] == 0) {
            set->slot[at] = key;
            return ++set->count <= GX_FEW;
        }
        at = (at + 1) % GX_FEW_SLOTS;
    }
    return true;
}

bool gx_few_add(gx_few *set, const double *line, int64_t length)
{
    bool are_few = true;
    for (int64_t k = 0; k < length && are_few; k++) {
        are_few = add_key(set, key_of(line[k]));
    }
    return are_few;
}

bool gx_few_join(gx_few *set, const gx_few *other)
{
    bool are_few = true;
    for (int64_t k = 0; k < GX_FEW_SLOTS && are_few; k++) {
        are_few = other->slot[k] == 0 || add_key(set, other->slot[k]);
    }
    return are_few;
}
