/*
** Settings.  Test plan:
**
**   1. gx_parse_size: units, case, fractions, the largest size, and what is no size.
**   2. Every setting: default, a good value, its canonical text, bad values with their exact
**      messages.
**   3. memory_limit and tile_bytes bind each other, by the floor.
**   4. 'default' gives the default back; keys in any case; unknown keys name the known ones.
**   5. GX_* variables: good ones become defaults, bad ones are reported and ignored.
*/
#include "base/config.h"
#include "base/machine.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void count_warning(void *arg, const char *text)
{
    char *log = arg;
    if (log != NULL) {
        snprintf(log + strlen(log), 2000 - strlen(log), "%s\n", text);
    }
}

static gx_config fresh(void)
{
    gx_config config;
    gx_config_init(&config, count_warning, NULL);
    return config;
}

/* Set and expect the value that is shown afterwards. */
static void expect_set(gx_config *config, gx_setting setting, const char *value, const char *shown)
{
    gx_err err = {0};
    assert_int_equal(gx_config_set(config, setting, value, &err), GX_OK);
    assert_string_equal(config->text[setting], shown);
}

/* Set and expect a refusal with just this text, and nothing changed. */
static void expect_refusal(gx_config *config, gx_setting setting, const char *value,
                           const char *text)
{
    gx_err err = {0};
    gx_config before = *config;
    assert_int_equal(gx_config_set(config, setting, value, &err), GX_ARG);
    assert_string_equal(err.text, text);
    assert_memory_equal(config, &before, sizeof before);
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"64MB", 64000000},
        {"64 mb", 64000000},
        {"64M", 64000000},
        {"64MiB", 64 << 20},
        {"64mi", 64 << 20},
        {"1.5GiB", 1610612736},
        {"2GiB", (int64_t)2 << 30},
        {"10kB", 10000},
        {"10 KiB", 10240},
        {"1T", 1000000000000},
        {"1PiB", (int64_t)1 << 50},
        {"  7 B", 7},
        {"0.5KiB", 512},
        {"1000000.0", 1000000},
        {"3.MB", 3000000},
        {"0.1MB", 100000},
        {"0.123456789012345678GB", 123456789},
        {"9223372036854775807", INT64_MAX},
        {"8191PiB", (int64_t)8191 << 50},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t bytes = -1;
        if (!gx_parse_size(good[i].text, &bytes) || bytes != good[i].bytes) {
            fail_msg("'%s' gave %lld", good[i].text, (long long)bytes);
        }
    }
    static const char *const bad[] = {
        "",
        "abc",
        "-1",
        "-1MB",
        "+1",
        "MB",
        "1 2",
        "1.5",
        "64XB",
        "64MBB",
        "64MB x",
        "0x10",
        ".5MB",
        "1e6",
        "nan",
        "9223372036854775808",
        "8192PiB",
        "10000PB",
        "99999999999999999999",
        "1.2.3MB",
        "64 M B",
        "1EiB",
        "1KiBi",
        "1mm",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t bytes = 42;
        if (gx_parse_size(bad[i], &bytes) || bytes != 42) {
            fail_msg("'%s' was taken for a size", bad[i]);
        }
    }
}

static void test_defaults(void **state)
{
    (void)state;
    gx_config config = fresh();
    int cpus = gx_machine_cpus();
    int64_t memory = (int64_t)gx_machine_memory();
    assert_int_equal(config.number[GX_SET_TILE_BYTES], 8 << 20);
    assert_int_equal(config.number[GX_SET_THREADS], cpus);
    assert_int_equal(config.number[GX_SET_READERS], cpus < 16 ? cpus : 16);
    assert_true(config.number[GX_SET_MEMORY_LIMIT] >= 24 << 20);
    assert_true(config.number[GX_SET_MEMORY_LIMIT] <= gx_max(memory / 2, 24 << 20));
    assert_true(config.number[GX_SET_PINNING_BUDGET] <= 8000000000);
    assert_string_equal(config.text[GX_SET_DEVICE_MEMORY_LIMIT], "0");
    assert_string_equal(config.text[GX_SET_BACKEND], "auto");
    assert_string_equal(config.text[GX_SET_DETERMINISTIC], "off");
    assert_string_equal(config.text[GX_SET_PROGRESS], "off");
    assert_string_equal(config.text[GX_SET_FILES], "on");
    assert_string_equal(config.text[GX_SET_PROFILE], "on");
    for (int i = 0; i < GX_SETTING_COUNT; i++) {
        const gx_setting_info *info = gx_config_info((gx_setting)i);
        assert_non_null(info->key);
        assert_true(strlen(info->meaning) > 0 && strlen(info->unit) > 0);
        assert_string_equal(config.text[i], config.default_text[i]);
    }
}

static void test_values(void **state)
{
    (void)state;
    gx_config config = fresh();
    expect_set(&config, GX_SET_MEMORY_LIMIT, "1.5GiB", "1610612736");
    expect_set(&config, GX_SET_PINNING_BUDGET, "0", "0");
    expect_set(&config, GX_SET_DEVICE_MEMORY_LIMIT, "10GB", "10000000000");
    expect_set(&config, GX_SET_BACKEND, "CPU", "cpu");
    expect_set(&config, GX_SET_BACKEND, "reference", "reference");
    expect_set(&config, GX_SET_THREADS, "3", "3");
    expect_set(&config, GX_SET_THREADS, "4.0", "4");
    expect_set(&config, GX_SET_READERS, "0", "0");
    expect_set(&config, GX_SET_TILE_BYTES, "1MiB", "1048576");
    expect_set(&config, GX_SET_DETERMINISTIC, "true", "on");
    expect_set(&config, GX_SET_DETERMINISTIC, "0", "off");
    expect_set(&config, GX_SET_PROGRESS, "yes", "on");
    expect_set(&config, GX_SET_PROGRESS, "my_progress2", "my_progress2");
    assert_int_equal(config.number[GX_SET_PROGRESS], GX_PROGRESS_CALLBACK);
    expect_set(&config, GX_SET_PROGRESS, "OFF", "off");
    assert_int_equal(config.number[GX_SET_PROGRESS], GX_PROGRESS_OFF);
    expect_set(&config, GX_SET_FILES, "no", "off");
    expect_set(&config, GX_SET_PROFILE, "off", "off");
}

static void test_refusals(void **state)
{
    (void)state;
    gx_config config = fresh();
    expect_refusal(&config, GX_SET_MEMORY_LIMIT, "abc",
                   "memory_limit 'abc' is no size: give bytes, or text such as '64MB' or '2GiB'");
    expect_refusal(&config, GX_SET_MEMORY_LIMIT, "-1",
                   "memory_limit '-1' is no size: give bytes, or text such as '64MB' or '2GiB'");
    expect_refusal(&config, GX_SET_PINNING_BUDGET, "",
                   "pinning_budget '' is no size: give bytes, or text such as '64MB' or '2GiB'");
    expect_refusal(&config, GX_SET_TILE_BYTES, "63",
                   "tile_bytes must be 64 to 1073741824 bytes, not 63");
    expect_refusal(&config, GX_SET_TILE_BYTES, "2GiB",
                   "tile_bytes must be 64 to 1073741824 bytes, not 2147483648");
    expect_refusal(&config, GX_SET_THREADS, "0",
                   "threads must be a whole number from 1 to 1024, not '0'");
    expect_refusal(&config, GX_SET_THREADS, "2kB",
                   "threads must be a whole number from 1 to 1024, not '2kB'");
    expect_refusal(&config, GX_SET_THREADS, "1.5",
                   "threads must be a whole number from 1 to 1024, not '1.5'");
    expect_refusal(&config, GX_SET_READERS, "257",
                   "readers must be a whole number from 0 to 256, not '257'");
    expect_refusal(&config, GX_SET_DETERMINISTIC, "maybe",
                   "deterministic must be on or off, not 'maybe'");
    expect_refusal(&config, GX_SET_BACKEND, "gpu",
                   "backend must be auto, cpu, cuda or reference, not 'gpu'");
    expect_refusal(&config, GX_SET_PROGRESS, "f(1); --",
                   "progress must be off, on, or the name of an SQL function, not 'f(1); --'");
    expect_refusal(&config, GX_SET_PROGRESS, "9f",
                   "progress must be off, on, or the name of an SQL function, not '9f'");
    expect_refusal(&config, GX_SET_FILES, "offf", "files must be on or off, not 'offf'");
}

static void test_floor(void **state)
{
    (void)state;
    gx_config config = fresh();
    expect_refusal(&config, GX_SET_MEMORY_LIMIT, "25165823",
                   "memory_limit 25165823 is below the floor of 25165824 bytes, three tiles of "
                   "8388608 (lower tile_bytes for less)");
    expect_set(&config, GX_SET_MEMORY_LIMIT, "24MiB", "25165824");
    expect_refusal(&config, GX_SET_TILE_BYTES, "8388609",
                   "tile_bytes 8388609 needs a memory_limit of at least 25165827 bytes, three "
                   "tiles, but it is 25165824");
    expect_set(&config, GX_SET_TILE_BYTES, "1000", "1000");
    expect_refusal(&config, GX_SET_MEMORY_LIMIT, "68535",
                   "memory_limit 68535 is below the floor of 68536 bytes, three tiles of 1000 "
                   "(lower tile_bytes for less)");
    expect_set(&config, GX_SET_MEMORY_LIMIT, "68536", "68536");

    // The floor never falls when tiles grow.
    for (int64_t tile = 64; tile < (int64_t)64 << 20; tile += 4097) {
        assert_true(gx_config_memory_floor(tile) <= gx_config_memory_floor(tile + 4097));
        assert_true(gx_config_memory_floor(tile) >= 3 * tile);
    }
}

static void test_keys(void **state)
{
    (void)state;
    gx_config config = fresh();
    gx_setting setting;
    gx_err err = {0};
    assert_int_equal(gx_config_find("Threads", &setting, &err), GX_OK);
    assert_int_equal(setting, GX_SET_THREADS);
    assert_int_equal(gx_config_find("thread", &setting, &err), GX_ARG);
    assert_string_equal(err.text,
                        "no setting 'thread': the settings are memory_limit, pinning_budget, "
                        "device_memory_limit, backend, threads, readers, tile_bytes, "
                        "deterministic, progress, probe, files, profile, cuda_path, "
                        "volumes_anywhere, device, devices, suitesparse_path, locked, events");
    expect_set(&config, GX_SET_THREADS, "7", "7");
    expect_set(&config, GX_SET_THREADS, "default", config.default_text[GX_SET_THREADS]);
    expect_set(&config, GX_SET_BACKEND, "cpu", "cpu");
    expect_set(&config, GX_SET_BACKEND, "Default", "auto");
}

static void test_environment(void **state)
{
    (void)state;
    setenv("GX_TILE_BYTES", "4KiB", 1);
    setenv("GX_MEMORY_LIMIT", "1MiB", 1); // allowed because the tiles are small
    setenv("GX_THREADS", "5", 1);
    setenv("GX_BACKEND", "fast", 1);
    setenv("GX_FILES", "off", 1);
    setenv("GX_PROGRESS", "", 1); // as if it were not set
    char log[2000] = "";
    gx_config config;
    gx_config_init(&config, count_warning, log);
    assert_string_equal(log, "GX_BACKEND ignored: backend must be auto, cpu, cuda or reference, "
                             "not 'fast'\n");
    assert_int_equal(config.number[GX_SET_TILE_BYTES], 4096);
    assert_int_equal(config.number[GX_SET_MEMORY_LIMIT], 1 << 20);
    assert_int_equal(config.number[GX_SET_THREADS], 5);
    assert_int_equal(config.number[GX_SET_READERS], 5); // follows the threads
    assert_int_equal(config.number[GX_SET_FILES], 0);
    assert_string_equal(config.text[GX_SET_BACKEND], "auto");
    assert_string_equal(config.default_text[GX_SET_THREADS], "5");

    // A tile larger than the built-in limit allows raises the limit; too small a limit is refused.
    setenv("GX_TILE_BYTES", "1GiB", 1);
    setenv("GX_MEMORY_LIMIT", "16MB", 1);
    log[0] = '\0';
    unsetenv("GX_BACKEND");
    gx_config_init(&config, count_warning, log);
    assert_true(config.number[GX_SET_MEMORY_LIMIT] >= (int64_t)3 << 30);
    assert_string_equal(log, "GX_MEMORY_LIMIT ignored: memory_limit 16000000 is below the floor of "
                             "3221225472 bytes, three tiles of 1073741824 (lower tile_bytes for "
                             "less)\n");
    static const char *const names[] = {"GX_TILE_BYTES", "GX_MEMORY_LIMIT", "GX_THREADS",
                                        "GX_FILES", "GX_PROGRESS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

int main(void)
{
    // The caller's variables are not part of the test.
    static const char *const names[] = {
        "GX_MEMORY_LIMIT",
        "GX_PINNING_BUDGET",
        "GX_DEVICE_MEMORY_LIMIT",
        "GX_BACKEND",
        "GX_THREADS",
        "GX_READERS",
        "GX_TILE_BYTES",
        "GX_DETERMINISTIC",
        "GX_PROGRESS",
        "GX_FILES",
        "GX_PROFILE",
        "GX_CUDA_PATH",
        "GX_DEVICE",
        "GX_DEVICES",
        "GX_PROBE",
        "GX_VOLUMES_ANYWHERE",
        "GX_SUITESPARSE_PATH",
        "GX_LOCKED",
        "GX_EVENTS",
    };
    assert(sizeof names / sizeof names[0] == GX_SETTING_COUNT);
    for (size_t i = 0; i < GX_SETTING_COUNT; i++) {
        unsetenv(names[i]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_floor),       cmocka_unit_test(test_keys),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
