/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_errors ONE OTHER: compares what two libcudart.so.13 call errors. Neither needs a driver.
 */
#include "program.h"

#include <cuda_runtime_api.h>
#include <string.h>

#define NUMBERS 1200

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    return library;
}

static void compare(void *one, void *other, const char *symbol)
{
    const char *(*ask_one)(cudaError_t error) = (const char *(*)(cudaError_t))dlsym(one, symbol);
    const char *(*ask_other)(cudaError_t error) =
        (const char *(*)(cudaError_t))dlsym(other, symbol);
    CHECK(ask_one != NULL && ask_other != NULL && ask_one != ask_other);
    for (int number = 0; number < NUMBERS; number++) {
        const char *from_one = ask_one((cudaError_t)number);
        const char *from_other = ask_other((cudaError_t)number);
        if (strcmp(from_one, from_other) != 0) {
            fprintf(stderr, "%s(%d): \"%s\" and \"%s\"\n", symbol, number, from_one, from_other);
            exit(EXIT_FAILURE);
        }
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    void *one = open_library(argv[1]);
    void *other = open_library(argv[2]);
    compare(one, other, "cudaGetErrorName");
    compare(one, other, "cudaGetErrorString");
    puts("runtime_errors: the same");
    return EXIT_SUCCESS;
}
