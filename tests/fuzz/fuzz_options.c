/*
** Property: any options object is accepted or refused in words, by every function that takes
** one; also any text as a name, a destination, a setting and its value.
*/
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t text[1 << 12];
    if (size + 2 > sizeof text) {
        return 0;
    }
    text[0] = '{';
    memcpy(text + 1, data, size);
    sqlite3 *db = fuzz_open();
    fuzz_run(db,
             "SELECT gx_matmul('[[1,2],[3,4]]', '[[1,2],[3,4]]', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_matmul('[[1,2],[3,4]]', '[[1,2],[3,4]]', 'P', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_store('A', '[[1,2],[3,4]]', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_randn(3, 3, ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_show('[[1,2],[3,4]]', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_store_cells('C', 0, 0, 1, ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_from_cells(0, 0, 1, ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_import('F', 'nowhere.npy', ?2) WHERE ?1 IS NOT NULL;",
             text, size + 1, NULL, 0);
    fuzz_run(db,
             "SELECT gx_store(?2, '[[1,2],[3,4]]') WHERE ?1 IS NOT NULL;"
             "SELECT gx_json(?2) WHERE ?1 IS NOT NULL; SELECT gx_matmul(?2, ?2, ?2) WHERE ?1 IS "
             "NOT NULL;"
             "SELECT gx_config('memory_limit', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_config('tile_bytes', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_config('backend', ?2) WHERE ?1 IS NOT NULL;"
             "SELECT gx_config(?2, 1) WHERE ?1 IS NOT NULL; SELECT gx_norm('[1]', ?2) WHERE ?1 IS "
             "NOT NULL;"
             "INSERT INTO gx(name, value) SELECT ?2, ?1; DELETE FROM gx WHERE name = ?2 AND ?1 IS "
             "NOT NULL",
             data, size, NULL, 0);
    fuzz_close(db);
    return 0;
}
