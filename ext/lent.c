/*
** The table of lent arrays.
**
** It is the process's, since a token is made before it is known which connection will get it.  A
** call holds its entry (users), and taking it back waits for that.  The lock is never held while
** anything is computed.
*/
#include "gx_ext.h"

#include "../core/base/convert.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_up = PTHREAD_COND_INITIALIZER;
static gx_lent table[GX_LENT_MAX]; /* under the lock; what a user's entry says does not change */

// Lending -----------------------------------------------------------------------------------------

/* 32 hexadecimal digits. */
static bool make_token(char token[GX_TOKEN_BYTES])
{
    unsigned char random[(GX_TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return false;
    }
    for (size_t k = 0; k < sizeof random; k++) {
        snprintf(token + 2 * k, 3, "%02x", random[k]);
    }
    return true;
}

/* Under the lock; NULL: there is none.  token "": a free place. */
static gx_lent *find(const char *token)
{
    for (int k = 0; k < GX_LENT_MAX; k++) {
        if (strcmp(table[k].token, token) == 0) {
            return &table[k];
        }
    }
    return NULL;
}

__attribute__((visibility("default"))) int gx_lend(void *data, const char *dtype, int64_t rows,
                                                   int64_t cols, int64_t row_step, int64_t col_step,
                                                   int is_writable, char token[GX_TOKEN_BYTES])
{
    size_t bytes;
    gx_lent made = {.data = data, .rows = rows, .cols = cols, .is_writable = is_writable != 0};
    row_step = rows == 1 && col_step == 1 ? 1 : row_step; // one row: by columns, too
    made.by_rows = row_step != 1;
    made.step = made.by_rows ? row_step : col_step;
    int64_t run = made.by_rows ? cols : rows;
    token[0] = '\0';
    if (data == NULL || !gx_dtype_parse(dtype, &made.dtype) || rows < 1 || cols < 1 ||
        (made.by_rows ? col_step : row_step) != 1 || made.step < run ||
        !gx_dtype_matrix_bytes(made.step, made.by_rows ? rows : cols, made.dtype, &bytes) ||
        (uintptr_t)data % gx_dtype_alignment(made.dtype) != 0 ||
        !make_token(made.token)) {
        return 1;
    }
    pthread_mutex_lock(&lock);
    gx_lent *place = find("");
    if (place != NULL) {
        *place = made;
        memcpy(token, made.token, GX_TOKEN_BYTES);
    }
    pthread_mutex_unlock(&lock);
    return place == NULL;
}

__attribute__((visibility("default"))) void gx_lend_end(const char *token)
{
    pthread_mutex_lock(&lock);
    gx_lent *place = token[0] == '\0' ? NULL : find(token);
    while (place != NULL && place->users > 0) {
        pthread_cond_wait(&given_up, &lock);
    }
    if (place != NULL) {
        place->token[0] = '\0';
    }
    pthread_mutex_unlock(&lock);
}

// Calls -------------------------------------------------------------------------------------------

gx_lent *gx_lent_take(const char *token)
{
    pthread_mutex_lock(&lock);
    gx_lent *array = token[0] == '\0' ? NULL : find(token);
    if (array != NULL) {
        array->users++;
    }
    pthread_mutex_unlock(&lock);
    return array;
}

void gx_lent_give_up(gx_lent *array)
{
    pthread_mutex_lock(&lock);
    if (--array->users == 0) {
        pthread_cond_broadcast(&given_up);
    }
    pthread_mutex_unlock(&lock);
}
