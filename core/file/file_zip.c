/*
** Zip archives, as much of them as NumPy writes, and gzip's files (RFC 1952): see file_int.h.
**
** The central directory at the end of the file says where members are and how long; the local
** headers before them repeat some of that and are not believed.  A member is stored, or deflated
** (RFC 1951): literals, and copies of what came up to 32 KiB before, in blocks with Huffman codes
** of their own.  A code is a table of all 15-bit windows, each with a symbol and its length: one
** look a symbol.
**
** Nothing in a file is trusted: offsets lie in the file, lengths in the member, copies in what is
** there, and the checksum is compared.  A member takes as much memory as the directory says, which
** is at most DEFLATE_MOST times what it has in the file.
**
** A gzip file is one such stream or several, each with a header, and behind it its checksum and its
** length, which nothing announces before: the memory is what the last length says, and grows where
** that was too little.
*/
#include "file_int.h"

#include <string.h>

enum {
    END_BYTES = 22, /* of the directory's end, without its comment     */
    COMMENT_MOST = 65535,
    ENTRY_BYTES = 46, /* of the directory, without name, extra, comment  */
    LOCAL_BYTES = 30,
    CODE_BITS = 15,
    CODES = 1 << CODE_BITS,
    LENGTH_CODES = 288,
    DISTANCE_CODES = 30,
    CHUNK = 32 << 10,
    DEFLATE_MOST = 1032, /* bytes a byte can stand for                      */
    GZIP_HEAD = 10,      /* of a gzip stream, without what is optional      */
    GZIP_TAIL = 8
};
static const int64_t PIECE = 1 << 20; /* read, unpacked or summed up between two polls */

static uint32_t get(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int k = 0; k < bytes; k++) {
        value |= (uint32_t)at[k] << 8 * k;
    }
    return value;
}

uint32_t gx_crc32(uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    static const uint32_t nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t k = 0; k < count; k++) {
        crc ^= at[k];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

// The directory -----------------------------------------------------------------------------------

/* Python writes what is 2 GiB or more so that lengths stand elsewhere (zip64). */
static gx_code too_large(const gx_input *in, const char *what, gx_err *err)
{
    return gx_input_fail(in, err, 0,
                         "%s of 2 GiB or more: numpy.save() writes an array to a .npy file", what);
}

/* Where the directory begins, and how many entries it has. */
static gx_code find_directory(const gx_import *im, int64_t *start, int64_t *entries, gx_err *err)
{
    const gx_input *in = im->in;
    void *memory;
    int64_t count = gx_min(in->size, END_BYTES + COMMENT_MOST), k = count - END_BYTES;
    if (in->size < END_BYTES) {
        return gx_input_fail(in, err, 0, "is no archive: it has %lld bytes", (long long)in->size);
    }
    GX_TRY(gx_mem_alloc(im->mem, (size_t)count, "the end of an archive", &memory, err));
    const unsigned char *tail = memory;
    gx_code code = in->read(in, in->size - count, (size_t)count, memory, err);
    while (code == GX_OK && k >= 0 && memcmp(tail + k, "PK\5\6", 4) != 0) {
        k--;
    }
    if (code == GX_OK && k >= 0) {
        *entries = get(tail + k + 10, 2);
        *start = get(tail + k + 16, 4);
    }
    gx_mem_free(im->mem, memory);
    GX_TRY(code);
    if (k < 0) {
        return gx_input_fail(in, err, 0, "is no archive: it has no directory at its end");
    }
    return *start != UINT32_MAX ? GX_OK : too_large(in, "is an archive", err);
}

gx_code gx_zip_each(const gx_import *im, gx_zip_visit fn, void *arg, gx_err *err)
{
    const gx_input *in = im->in;
    const int64_t OFTEN = 1024;
    int64_t at = 0, entries = 0;
    bool is_done = false;
    GX_TRY(find_directory(im, &at, &entries, err));
    for (int64_t k = 0; k < entries && !is_done; k++) {
        unsigned char entry[ENTRY_BYTES];
        char called[256];
        if (at > in->size - ENTRY_BYTES) {
            return gx_input_fail(in, err, 0, "has a damaged directory");
        }
        GX_TRY(in->read(in, at, ENTRY_BYTES, entry, err));
        size_t own = get(entry + 28, 2), kept = own < sizeof called ? own : sizeof called - 1;
        if (memcmp(entry, "PK\1\2", 4) != 0 ||
            at + ENTRY_BYTES > in->size - (int64_t)own) {
            return gx_input_fail(in, err, 0, "has a damaged directory");
        }
        GX_TRY(in->read(in, at + ENTRY_BYTES, kept, called, err));
        called[kept] = '\0';
        const gx_zip_member member = {.is_secret = (entry[8] & 1) != 0,
                                      .method = (int)get(entry + 10, 2),
                                      .crc = get(entry + 16, 4),
                                      .packed = get(entry + 20, 4),
                                      .bytes = get(entry + 24, 4),
                                      .local = get(entry + 42, 4)};
        fn(arg, called, &member, &is_done);
        at += ENTRY_BYTES + (int64_t)own + get(entry + 30, 2) + get(entry + 32, 2);
        if (k % OFTEN == OFTEN - 1) {
            GX_TRY(gx_import_poll(im, err));
        }
    }
    return GX_OK;
}

/* A search for one name. */
typedef struct wanted {
    const char *name;
    gx_zip_member *member;
    bool *found;
} wanted;

static void compare_name(void *arg, const char *name, const gx_zip_member *member, bool *is_done)
{
    const wanted *w = arg;
    if (strcmp(name, w->name) == 0) {
        *w->member = *member;
        *w->found = *is_done = true;
    }
}

gx_code gx_zip_find(const gx_import *im, const char *name, gx_zip_member *member, bool *found,
                    gx_err *err)
{
    wanted w = {name, member, found};
    *found = false;
    return gx_zip_each(im, compare_name, &w, err);
}

// Deflate -----------------------------------------------------------------------------------------

typedef struct inflater {
    const gx_import *im;
    const char *name;       /* of the member                                        */
    int64_t at, end;        /* of what has not been read                            */
    size_t next, have;      /* of the chunk                                         */
    uint64_t bits;          /* the lowest is next                                   */
    int count;              /* of them                                              */
    int padding;            /* bits behind the end among them                       */
    unsigned char *out;
    size_t used, size;
    bool may_grow; /* out, where size is too little                        */
    size_t poll_at;         /* bytes of out at which the caller is asked again      */
    uint16_t length_code[CODES], distance_code[CODES]; /* symbol << 4 | bits; 0: no code */
    unsigned char chunk[CHUNK];
    gx_err *err;
} inflater;

static bool damaged(inflater *x)
{
    if (x->err->code == GX_OK) {
        gx_input_fail(x->im->in, x->err, 0, "%s is damaged behind byte %zu of it", x->name,
                      x->used);
    }
    return false;
}

/* At least 48 bits at hand, zeros behind the end. */
static bool refill(inflater *x)
{
    if (x->used >= x->poll_at) {
        x->poll_at = x->used + (size_t)PIECE;
        if (gx_import_poll(x->im, x->err) != GX_OK) {
            return false;
        }
    }
    while (x->count <= 48) {
        uint64_t byte = 0;
        if (x->next == x->have && x->at < x->end) {
            x->have = (size_t)gx_min(CHUNK, x->end - x->at);
            x->next = 0;
            if (x->im->in->read(x->im->in, x->at, x->have, x->chunk, x->err) != GX_OK) {
                return false;
            }
            x->at += (int64_t)x->have;
        }
        if (x->next < x->have) {
            byte = x->chunk[x->next++];
        } else {
            x->padding += 8;
        }
        x->bits |= byte << x->count;
        x->count += 8;
    }
    return x->padding <= x->count || damaged(x); // none of them has been taken
}

/* Room for so many bytes more. */
static bool make_room(inflater *x, size_t bytes)
{
    const size_t LEAST = 64 << 10;
    if (bytes <= x->size - x->used) {
        return true;
    }
    if (!x->may_grow) {
        return damaged(x);
    }
    void *block = x->out;
    size_t grown = x->used + bytes + (x->used > LEAST ? x->used / 2 : LEAST);
    if (gx_mem_realloc(x->im->mem, grown, "what a packed file holds", &block, x->err) != GX_OK) {
        return false;
    }
    x->out = block;
    x->size = grown;
    return true;
}

/* At most 16 bits, of those at hand. */
static uint32_t take_bits(inflater *x, int count)
{
    uint32_t value = (uint32_t)x->bits & ((1U << count) - 1);
    x->bits >>= count;
    x->count -= count;
    return value;
}

/* -1: there is no such code. */
static int take_symbol(inflater *x, const uint16_t *code)
{
    uint16_t found = code[x->bits & (CODES - 1)];
    take_bits(x, found & 15);
    return found == 0 ? -1 : found >> 4;
}

/* The canonical code of so many symbols with these lengths; false: more than fit. */
static bool build_code(uint16_t *code, const unsigned char *length, int symbols)
{
    uint32_t next = 0;
    memset(code, 0, CODES * sizeof *code);
    for (int bits = 1; bits <= CODE_BITS; bits++, next <<= 1) {
        for (int s = 0; s < symbols; s++) {
            if (length[s] != bits) {
                continue;
            }
            uint32_t reversed = 0;
            for (int k = 0; k < bits; k++) {
                reversed |= (next >> k & 1) << (bits - 1 - k);
            }
            if (next++ >= 1U << bits) {
                return false;
            }
            for (uint32_t w = reversed; w < CODES; w += 1U << bits) {
                code[w] = (uint16_t)(s << 4 | bits);
            }
        }
    }
    return true;
}

/* The codes of a block that brings its own. */
static bool read_codes(inflater *x)
{
    static const unsigned char order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                            11, 4,  12, 3, 13, 2, 14, 1, 15};
    unsigned char length[LENGTH_CODES + 32 + 138] = {0}, own[19] = {0};
    int lengths = (int)take_bits(x, 5) + 257, distances = (int)take_bits(x, 5) + 1;
    int count = (int)take_bits(x, 4) + 4;
    for (int k = 0; k < count; k++) {
        if (!refill(x)) {
            return false;
        }
        own[order[k]] = (unsigned char)take_bits(x, 3);
    }
    if (!build_code(x->length_code, own, 19)) {
        return damaged(x);
    }
    for (int k = 0; k < lengths + distances;) {
        if (!refill(x)) {
            return false;
        }
        int symbol = take_symbol(x, x->length_code);
        if (symbol < 0 || (symbol == 16 && k == 0)) {
            return damaged(x);
        }
        int times = symbol < 16    ? 1
                    : symbol == 16 ? 3 + (int)take_bits(x, 2)
                    : symbol == 17 ? 3 + (int)take_bits(x, 3)
                                   : 11 + (int)take_bits(x, 7);
        int value = symbol < 16 ? symbol : symbol == 16 ? length[k - 1] : 0;
        memset(length + k, value, (size_t)times);
        k += times;
        if (k > lengths + distances) {
            return damaged(x);
        }
    }
    return (lengths <= LENGTH_CODES && build_code(x->length_code, length, lengths) &&
            build_code(x->distance_code, length + lengths, distances)) ||
           damaged(x);
}

/* The codes that every reader knows. */
static bool take_fixed_codes(inflater *x)
{
    unsigned char length[LENGTH_CODES];
    for (int s = 0; s < LENGTH_CODES; s++) {
        length[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
    }
    build_code(x->length_code, length, LENGTH_CODES);
    memset(length, 5, DISTANCE_CODES);
    return build_code(x->distance_code, length, DISTANCE_CODES);
}

/* Literals and copies, to the end of the block. */
static bool read_symbols(inflater *x)
{
    static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,
                                             15, 17, 19, 23, 27, 31, 35, 43, 51,  59,
                                             67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const unsigned char length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                  2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[DISTANCE_CODES] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    while (refill(x)) {
        int symbol = take_symbol(x, x->length_code);
        if (symbol == 256) {
            return true;
        }
        if (symbol < 0 || symbol > 285) {
            return damaged(x);
        }
        if (!make_room(x, 1)) {
            return false;
        }
        if (symbol < 256) {
            x->out[x->used++] = (unsigned char)symbol;
            continue;
        }
        int k = symbol - 257;
        size_t length = length_base[k] + (size_t)take_bits(x, length_bits[k]);
        int d = take_symbol(x, x->distance_code);
        if (d < 0 || d >= DISTANCE_CODES) {
            return damaged(x);
        }
        size_t distance = distance_base[d] + (size_t)take_bits(x, d < 2 ? 0 : d / 2 - 1);
        if (distance > x->used) {
            return damaged(x);
        }
        if (!make_room(x, length)) {
            return false;
        }
        for (; length > 0; length--, x->used++) { // it may overlap itself
            x->out[x->used] = x->out[x->used - distance];
        }
    }
    return false;
}

/* Bytes as they are, from the next whole one on. */
static bool read_stored(inflater *x)
{
    take_bits(x, x->count % 8);
    if (!refill(x)) {
        return false;
    }
    uint32_t count = take_bits(x, 16), check = take_bits(x, 16);
    if ((count ^ check) != 0xffff) {
        return damaged(x);
    }
    if (!make_room(x, count)) {
        return false;
    }
    for (; count > 0; count--) {
        if (!refill(x)) {
            return false;
        }
        x->out[x->used++] = (unsigned char)take_bits(x, 8);
    }
    return true;
}

static bool inflate(inflater *x)
{
    for (bool is_last = false; !is_last;) {
        if (!refill(x)) {
            return false;
        }
        is_last = take_bits(x, 1) == 1;
        uint32_t kind = take_bits(x, 2);
        bool is_well = kind == 0   ? read_stored(x)
                       : kind == 1 ? take_fixed_codes(x) && read_symbols(x)
                       : kind == 2 ? read_codes(x) && read_symbols(x)
                                   : damaged(x);
        if (!is_well) {
            return false;
        }
    }
    return true;
}

// A member ----------------------------------------------------------------------------------------

/* A new one for the bytes [start, end) of the file. */
static gx_code open_inflater(const gx_import *im, const char *name, int64_t start, int64_t end,
                             inflater **out, gx_err *err)
{
    void *memory;
    GX_TRY(gx_mem_alloc(im->mem, sizeof(inflater), name, &memory, err));
    inflater *x = *out = memory;
    x->im = im;
    x->name = name;
    x->at = start;
    x->end = end;
    x->next = x->have = x->used = x->size = 0;
    x->bits = 0;
    x->count = x->padding = 0;
    x->out = NULL;
    x->may_grow = false;
    x->poll_at = 0;
    x->err = err;
    return GX_OK;
}

static gx_code read_pieces(const gx_import *im, int64_t start, int64_t bytes, char *to, gx_err *err)
{
    for (int64_t k = 0; k < bytes; k += PIECE) {
        size_t count = (size_t)gx_min(PIECE, bytes - k);
        GX_TRY(im->in->read(im->in, start + k, count, to + k, err));
        GX_TRY(gx_import_poll(im, err));
    }
    return GX_OK;
}

/* Is that the checksum of the bytes? */
static gx_code check_sum(const gx_import *im, const char *name, const char *data, int64_t bytes,
                         uint32_t wanted_sum, gx_err *err)
{
    uint32_t crc = 0;
    for (int64_t k = 0; k < bytes; k += PIECE) {
        crc = gx_crc32(crc, data + k, (size_t)gx_min(PIECE, bytes - k));
        GX_TRY(gx_import_poll(im, err));
    }
    return crc == wanted_sum
               ? GX_OK
               : gx_input_fail(im->in, err, 0, "%s is damaged: its checksum is another", name);
}

/* Where its bytes begin. */
static gx_code find_bytes(const gx_import *im, const char *name, const gx_zip_member *m,
                          int64_t *start, gx_err *err)
{
    unsigned char local[LOCAL_BYTES] = {0};
    const gx_input *in = im->in;
    int64_t most = m->method == 0 ? 1 : DEFLATE_MOST;
    if (m->is_secret || (m->method != 0 && m->method != 8)) {
        return gx_input_fail(in, err, 0, "%s is %s", name,
                             m->is_secret ? "encrypted" : "packed by a method that is not known");
    }
    if (m->packed == UINT32_MAX || m->bytes == UINT32_MAX || m->local == UINT32_MAX) {
        return too_large(in, "has an array", err);
    }
    *start = m->local;
    if (*start <= in->size - LOCAL_BYTES) {
        GX_TRY(in->read(in, *start, LOCAL_BYTES, local, err));
        *start += LOCAL_BYTES + get(local + 26, 2) + get(local + 28, 2);
    }
    if (*start > in->size - m->packed || m->bytes > most * m->packed ||
        (m->method == 0 && m->bytes != m->packed) || memcmp(local, "PK\3\4", 4) != 0) {
        return gx_input_fail(in, err, 0, "%s does not lie where the directory says", name);
    }
    return GX_OK;
}

static gx_code unpack(const gx_import *im, const char *name, const gx_zip_member *m, int64_t start,
                      void *data, gx_err *err)
{
    inflater *x;
    GX_TRY(open_inflater(im, name, start, start + m->packed, &x, err));
    x->out = data;
    x->size = (size_t)m->bytes;
    bool is_well = inflate(x) && (x->used == x->size || damaged(x));
    gx_mem_free(im->mem, x);
    return is_well ? GX_OK : err->code;
}

gx_code gx_zip_read(const gx_import *im, const char *name, const gx_zip_member *m, void **data,
                    gx_err *err)
{
    int64_t start = 0;
    *data = NULL;
    GX_TRY(find_bytes(im, name, m, &start, err));
    GX_TRY(gx_mem_alloc(im->mem, (size_t)m->bytes, name, data, err));
    gx_code code = m->method == 0 ? read_pieces(im, start, m->bytes, *data, err)
                                  : unpack(im, name, m, start, *data, err);
    code = code == GX_OK ? check_sum(im, name, *data, m->bytes, m->crc, err) : code;
    if (code != GX_OK) {
        gx_mem_free(im->mem, *data);
        *data = NULL;
    }
    return code;
}

// Gzip --------------------------------------------------------------------------------------------

static const char *const GZIP_NAME = "what it holds";

gx_code gx_gzip_is(const gx_input *in, bool *is_gzip, gx_err *err)
{
    unsigned char magic[2] = {0, 0};
    if (in->size >= (int64_t)sizeof magic) {
        GX_TRY(in->read(in, 0, sizeof magic, magic, err));
    }
    *is_gzip = magic[0] == 0x1f && magic[1] == 0x8b;
    return GX_OK;
}

static gx_code cut_short(const gx_import *im, gx_err *err)
{
    return gx_input_fail(im->in, err, 0, "is compressed (gzip), and cut short or damaged");
}

/* Past a text that ends with a NUL. */
static gx_code skip_text(const gx_import *im, int64_t *at, gx_err *err)
{
    for (char c = 'x'; c != '\0'; ++*at) {
        if (*at >= im->in->size) {
            return cut_short(im, err);
        }
        GX_TRY(im->in->read(im->in, *at, 1, &c, err));
    }
    return GX_OK;
}

/* Past the header of a stream; *found false where something else stands there. */
static gx_code skip_head(const gx_import *im, int64_t *at, bool *found, gx_err *err)
{
    enum { HAS_SUM = 2, HAS_EXTRA = 4, HAS_NAME = 8, HAS_COMMENT = 16 };
    unsigned char head[GZIP_HEAD] = {0}, bytes[2] = {0};
    const gx_input *in = im->in;
    int64_t count = gx_min(GZIP_HEAD, in->size - *at);
    GX_TRY(in->read(in, *at, (size_t)count, head, err));
    *found = head[0] == 0x1f && head[1] == 0x8b;
    for (int64_t k = 0; k < count && !*found; k++) {
        if (head[k] != 0) { // zeros fill up the blocks of a tape
            return gx_input_fail(in, err, 0, "has other bytes behind what is compressed (gzip)");
        }
    }
    if (!*found) {
        return GX_OK;
    }
    int flags = head[3];
    *at += GZIP_HEAD;
    if (count < GZIP_HEAD || head[2] != 8) {
        return cut_short(im, err);
    }
    if ((flags & HAS_EXTRA) != 0) {
        GX_TRY(*at + 2 <= in->size ? in->read(in, *at, 2, bytes, err) : cut_short(im, err));
        *at += 2 + (int64_t)get(bytes, 2);
    }
    if ((flags & HAS_NAME) != 0) {
        GX_TRY(skip_text(im, at, err));
    }
    if ((flags & HAS_COMMENT) != 0) {
        GX_TRY(skip_text(im, at, err));
    }
    *at += (flags & HAS_SUM) != 0 ? 2 : 0;
    return *at <= in->size - GZIP_TAIL ? GX_OK : cut_short(im, err);
}

/* One stream from x->at on, whose header has been read; *at: behind it. */
static gx_code read_stream(inflater *x, int64_t *at, gx_err *err)
{
    const gx_input *in = x->im->in;
    unsigned char tail[GZIP_TAIL];
    size_t before = x->used;
    x->at = *at;
    x->next = x->have = 0;
    x->bits = 0;
    x->count = x->padding = 0;
    if (!inflate(x)) {
        return err->code;
    }
    // Whole bytes that were read and not used go back.
    *at = x->at - (int64_t)(x->have - x->next) - (x->count - x->padding) / 8;
    if (*at > in->size - GZIP_TAIL) {
        return cut_short(x->im, err);
    }
    GX_TRY(in->read(in, *at, GZIP_TAIL, tail, err));
    *at += GZIP_TAIL;
    if (get(tail + 4, 4) != (uint32_t)(x->used - before)) {
        return cut_short(x->im, err);
    }
    return check_sum(x->im, GZIP_NAME, (char *)x->out + before, (int64_t)(x->used - before),
                     get(tail, 4), err);
}

/* Memory for what the last stream says that it has, where that can be. */
static gx_code guess_size(inflater *x, gx_err *err)
{
    const gx_input *in = x->im->in;
    unsigned char last[4];
    GX_TRY(in->read(in, in->size - 4, sizeof last, last, err));
    int64_t bytes = get(last, 4);
    bytes = bytes > DEFLATE_MOST * in->size ? 0 : bytes;
    return make_room(x, (size_t)bytes + 1) ? GX_OK : err->code; // 1: there is memory, if not a byte
}

gx_code gx_gzip_read(const gx_import *im, void **data, size_t *bytes, gx_err *err)
{
    inflater *x;
    int64_t at = 0;
    bool found = true;
    *data = NULL;
    *bytes = 0;
    if (im->in->size < GZIP_HEAD + GZIP_TAIL) {
        return cut_short(im, err);
    }
    GX_TRY(open_inflater(im, GZIP_NAME, 0, im->in->size, &x, err));
    x->may_grow = true;
    gx_code code = guess_size(x, err);
    while (code == GX_OK && found && at < im->in->size) { // what follows the last stream is padding
        code = skip_head(im, &at, &found, err);
        if (code == GX_OK && found) {
            code = read_stream(x, &at, err);
        }
    }
    if (code == GX_OK) {
        *data = x->out;
        *bytes = x->used;
    } else {
        gx_mem_free(im->mem, x->out);
    }
    gx_mem_free(im->mem, x);
    return code;
}
