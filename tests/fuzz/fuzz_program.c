/*
** Property: any text as a program of gx_eval is answered or refused in words, the same with all
** passes and with none: both answer, or both refuse.
*/
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[1 << 12], second[1 << 12];
    if (size > 4000 || memchr(data, '\0', size) != NULL) {
        return 0;
    }
    sqlite3 *db = fuzz_open();
    fuzz_run(db, "SELECT gx_store('A', '[[2,1],[1,3]]'), gx_store('x', '[1,2]')", NULL, 0, NULL, 0);
    int rc = fuzz_run(db, "SELECT gx_eval(?2, '{\"limit\":50}') WHERE ?1 IS NOT NULL", data, size,
                      first, sizeof first);
    if (rc == SQLITE_OK) {
        rc = fuzz_run(db,
                      "SELECT gx_eval(?2, '{\"limit\":50,\"optimize\":false,\"replace\":true}') "
                      "WHERE ?1 IS NOT NULL",
                      data, size, second, sizeof second);
        if (rc != SQLITE_OK && rc != SQLITE_NOMEM && strstr(sqlite3_errmsg(db), "memory") == NULL) {
            fuzz_fail("refused without its passes", sqlite3_errmsg(db));
        }
    }
    fuzz_close(db);
    return 0;
}
