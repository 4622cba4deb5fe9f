/*
** Property: any text that starts with [ is answered or refused in words; what gx_json prints, it
** reads back to the same text.
*/
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[1 << 16], second[1 << 16];
    static uint8_t text[1 << 14];
    if (size + 2 > sizeof text) {
        return 0;
    }
    text[0] = '[';
    memcpy(text + 1, data, size);
    sqlite3 *db = fuzz_open();
    int rc = fuzz_run(db, "SELECT gx_json(?2) WHERE ?1 IS NOT NULL", text, size + 1, first,
                      sizeof first);
    if (rc == SQLITE_OK && strlen(first) + 1 < sizeof first) {
        rc = fuzz_run(db, "SELECT gx_json(?2) WHERE ?1 IS NOT NULL", (const uint8_t *)first,
                      strlen(first), second, sizeof second);
        if (rc != SQLITE_OK) {
            fuzz_fail("its own output is refused", sqlite3_errmsg(db));
        }
        if (strcmp(first, second) != 0) {
            fuzz_fail("not the same twice", second);
        }
    }
    fuzz_run(db,
             "SELECT gx_store('A', ?2) WHERE ?1 IS NOT NULL; SELECT gx_from_rows(0, ?2) WHERE ?1 "
             "IS NOT NULL",
             text, size + 1, NULL, 0);
    fuzz_close(db);
    return 0;
}
