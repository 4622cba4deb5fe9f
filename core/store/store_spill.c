/*
** Temporary data: see spill.h.
**
**     piece(id INTEGER PRIMARY KEY, data BLOB)
**
** A stream is a run of consecutive rows, each of piece_bytes but the last, and is known by the id
** of its first row; byte k of it is in row k / piece_bytes.  Everything happens in one transaction
** that is never committed, without a journal: SQLite writes pages when its cache is full
** (CACHE_PAGES of 64 KiB) and never waits for the disk.
**
** I/O: each byte is written once and read as often as asked for.  Memory: one piece, and SQLite's
** cache of 1 MiB, which is SQLite's and not counted.
*/
#include <sqlite3ext.h>

#include "spill.h"
#include "store_int.h"

#include <assert.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

struct gx_spill {
    sqlite3 *db;
    sqlite3_stmt *insert;
    sqlite3_blob *blob;  /* the handle of gx_spill_read(), or NULL */
    int64_t blob_row;    /* where it stands; 0: nowhere            */
    int64_t next_row;
    gx_mem *mem;
    size_t piece_bytes;
    size_t used;         /* bytes waiting in buffer                */
    unsigned char *buffer;
};

static const char WHAT[] = "temporary data";

static gx_code open_database(gx_spill *spill, gx_err *err)
{
    int rc = sqlite3_open_v2("", &spill->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             NULL);
    if (spill->db == NULL) {
        return gx_fail_nomem(err, sizeof *spill, WHAT);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(spill->db,
                          "PRAGMA page_size = 65536; PRAGMA journal_mode = OFF;"
                          "PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
                          "PRAGMA cache_size = 16; PRAGMA secure_delete = OFF; BEGIN;"
                          "CREATE TABLE piece(id INTEGER PRIMARY KEY, data BLOB)",
                          NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(spill->db, "INSERT INTO piece(id, data) VALUES(?1, ?2)", -1,
                                &spill->insert, NULL);
    }
    return rc == SQLITE_OK ? GX_OK : gx_store_fail(spill->db, rc, err, "%s", WHAT);
}

gx_code gx_spill_create(gx_mem *mem, size_t piece_bytes, gx_spill **out, gx_err *err)
{
    *out = NULL;
    void *memory;
    GX_TRY(gx_mem_calloc(mem, sizeof(gx_spill), WHAT, &memory, err));
    gx_spill *spill = memory;
    spill->mem = mem;
    spill->piece_bytes = piece_bytes;
    spill->next_row = 1;
    gx_code rc = gx_mem_alloc(mem, piece_bytes, WHAT, &memory, err);
    if (rc == GX_OK) {
        spill->buffer = memory;
        rc = open_database(spill, err);
    }
    if (rc != GX_OK) {
        gx_spill_free(spill);
        return rc;
    }
    *out = spill;
    return GX_OK;
}

void gx_spill_free(gx_spill *spill)
{
    if (spill == NULL) {
        return;
    }
    sqlite3_blob_close(spill->blob);
    sqlite3_finalize(spill->insert);
    sqlite3_close(spill->db);
    gx_mem_free(spill->mem, spill->buffer);
    gx_mem_free(spill->mem, spill);
}

// Writing -----------------------------------------------------------------------------------------

static gx_code write_piece(gx_spill *spill, const void *data, size_t bytes, gx_err *err)
{
    sqlite3_bind_int64(spill->insert, 1, spill->next_row);
    int rc = sqlite3_bind_blob64(spill->insert, 2, data, bytes, SQLITE_STATIC);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(spill->insert);
    }
    gx_code code = GX_OK;
    if (rc != SQLITE_DONE) {
        code = gx_store_fail(spill->db, rc, err, "%s", WHAT);
    }
    sqlite3_reset(spill->insert);
    sqlite3_bind_null(spill->insert, 2);
    spill->next_row++;
    return code;
}

void gx_spill_begin(gx_spill *spill, int64_t *stream)
{
    assert(spill->used == 0 && "streams are written one at a time");
    *stream = spill->next_row;
}

gx_code gx_spill_append(gx_spill *spill, const void *data, size_t bytes, gx_err *err)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        if (spill->used == 0 && bytes >= spill->piece_bytes) { // whole pieces go without a copy
            GX_TRY(write_piece(spill, from, spill->piece_bytes, err));
            from += spill->piece_bytes;
            bytes -= spill->piece_bytes;
            continue;
        }
        size_t room = spill->piece_bytes - spill->used, part = bytes < room ? bytes : room;
        memcpy(spill->buffer + spill->used, from, part);
        spill->used += part;
        from += part;
        bytes -= part;
        if (spill->used == spill->piece_bytes) {
            spill->used = 0;
            GX_TRY(write_piece(spill, spill->buffer, spill->piece_bytes, err));
        }
    }
    return GX_OK;
}

gx_code gx_spill_end(gx_spill *spill, gx_err *err)
{
    size_t bytes = spill->used;
    spill->used = 0;
    return bytes == 0 ? GX_OK : write_piece(spill, spill->buffer, bytes, err);
}

// Reading -----------------------------------------------------------------------------------------

static int move_to(gx_spill *spill, int64_t row)
{
    if (spill->blob != NULL && spill->blob_row == row) {
        return SQLITE_OK;
    }
    int rc = SQLITE_ABORT;
    if (spill->blob != NULL) {
        rc = sqlite3_blob_reopen(spill->blob, row);
    }
    if ((rc & 0xff) == SQLITE_ABORT) {
        sqlite3_blob_close(spill->blob);
        spill->blob = NULL;
        rc = sqlite3_blob_open(spill->db, "main", "piece", "data", row, 0, &spill->blob);
    }
    spill->blob_row = rc == SQLITE_OK ? row : 0;
    return rc;
}

gx_code gx_spill_read(gx_spill *spill, int64_t stream, int64_t offset, size_t bytes, void *dst,
                      gx_err *err)
{
    unsigned char *to = dst;
    assert(stream > 0 && stream < spill->next_row && offset >= 0);
    while (bytes > 0) {
        int64_t piece = offset / (int64_t)spill->piece_bytes;
        size_t start = (size_t)(offset - piece * (int64_t)spill->piece_bytes);
        size_t part = spill->piece_bytes - start;
        part = bytes < part ? bytes : part;
        int rc = move_to(spill, stream + piece);
        if (rc == SQLITE_OK) {
            rc = sqlite3_blob_read(spill->blob, to, (int)part, (int)start);
        }
        if ((rc & 0xff) == SQLITE_ABORT) { // a handle that died: once more with a new one
            spill->blob_row = 0;
            rc = move_to(spill, stream + piece);
            if (rc == SQLITE_OK) {
                rc = sqlite3_blob_read(spill->blob, to, (int)part, (int)start);
            }
        }
        if (rc != SQLITE_OK) {
            return gx_store_fail(spill->db, rc, err, "%s", WHAT);
        }
        to += part;
        offset += (int64_t)part;
        bytes -= part;
    }
    return GX_OK;
}
