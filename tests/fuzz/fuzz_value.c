/*
** Property: any blob given as a matrix is answered or refused in words, and what was accepted
** can be stored, shown, multiplied and read back unchanged.
*/
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[1 << 16], second[1 << 16];
    sqlite3 *db = fuzz_open();
    int rc = fuzz_run(db, "SELECT gx_json(?1)", data, size, first, sizeof first);
    fuzz_run(db,
             "SELECT gx_info(?1); SELECT gx_show(?1); SELECT gx_heatmap(?1); SELECT gx_shape(?1);"
             "SELECT gx_norm(?1); SELECT gx_sum(?1); SELECT gx_trace(?1); SELECT gx_get(?1, 0, 0);"
             "SELECT gx_transpose(?1); SELECT gx_add(?1, ?1); SELECT gx_scale(?1, 2);"
             "SELECT gx_matmul(?1, ?1); SELECT gx_matmul(?1, ?1, NULL, '{\"transb\":true}');"
             "SELECT * FROM gx_cells(?1); SELECT * FROM gx_rows(?1);"
             "SELECT gx_from_rows(0, ?1, '{\"cols\":3}'); "
             "SELECT gx_store_rows('R', 7, ?1, "
             "'{\"dtype\":\"c64\",\"number\":true,\"ids\":\"I\"}')",
             data, size, NULL, 0);
    if (rc == SQLITE_OK && size > 0) {
        if (fuzz_run(db, "SELECT gx_store('A', ?1)", data, size, NULL, 0) != SQLITE_OK ||
            fuzz_run(db, "SELECT gx_json('A')", data, size, second, sizeof second) != SQLITE_OK) {
            fuzz_fail("accepted but not stored", sqlite3_errmsg(db));
        }
        if (strcmp(first, second) != 0) {
            fuzz_fail("stored differently", second);
        }
    }
    fuzz_close(db);
    return 0;
}
