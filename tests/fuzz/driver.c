/*
** A fuzz target as a plain program: runs each file of the given folders (or files) through it
** once.
**
**     fuzz_<name> PATH...
**
** `make test` replays the corpus this way, without libFuzzer.  Two inputs are always run: none,
** and one zero byte.
*/
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int inputs;

static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        printf("cannot open %s\n", path);
        exit(2);
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size + 1); // exactly size bytes for the sanitizer's sake, but never NULL
    if (data == NULL || fread(data, 1, size, file) != size) {
        printf("cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    uint8_t *exact = realloc(data, size > 0 ? size : 1);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    inputs++;
}

static void walk(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        replay(path);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            char inside[4096];
            snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
            walk(inside);
        }
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    static const uint8_t zero[1];
    LLVMFuzzerTestOneInput(zero, 0);
    LLVMFuzzerTestOneInput(zero, 1);
    for (int i = 1; i < argc; i++) {
        walk(argv[i]);
    }
    printf("%d inputs\n", inputs);
    return 0;
}
