/*
** The stand-in for libgfortran's string concatenation (kernels/fortran_shim.c).
**
** Plan: what Fortran says of CHARACTER assignment: dest = a // b, cut or filled up with blanks;
** empty parts; nothing written behind dest.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes, const char *a,
                             size_t b_bytes, const char *b);

static void joins(size_t dest_bytes, const char *a, const char *b, const char *want)
{
    char dest[16];
    memset(dest, '#', sizeof dest);
    _gfortran_concat_string(dest_bytes, dest, strlen(a), a, strlen(b), b);
    assert_memory_equal(dest, want, dest_bytes);
    for (size_t i = dest_bytes; i < sizeof dest; i++) {
        assert_int_equal(dest[i], '#');
    }
}

static void concatenation(void **state)
{
    (void)state;
    joins(2, "L", "N", "LN"); // what LAPACK does: OPTS = SIDE // TRANS
    joins(5, "ab", "cde", "abcde");
    joins(8, "ab", "cde", "abcde   ");
    joins(4, "ab", "cde", "abcd");
    joins(2, "abc", "de", "ab");
    joins(3, "", "xy", "xy ");
    joins(3, "xy", "", "xy ");
    joins(3, "", "", "   ");
    joins(0, "xy", "z", "");
    _gfortran_concat_string(0, NULL, 0, NULL, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(concatenation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
