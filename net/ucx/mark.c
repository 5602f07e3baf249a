/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx/mark.h"

#include "base/lf.h"

#include <errno.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

ferry_status fry_ucx_mark_set(fry_ucx_mark *mark, fry_ucx_mark_place *place)
{
    void *page =
        mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return FERRY_E_SYSTEM;
    if (madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
        const int error = errno;
        (void)munmap(page, page_bytes());
        errno = error;
        return FERRY_E_SYSTEM;
    }
    mark->words = page;
    randombytes_buf(mark->words, sizeof place->words);
    *place = (fry_ucx_mark_place){
        .pid = getpid(), .address = (uintptr_t)page, .words = {mark->words[0], mark->words[1]}};
    return FERRY_OK;
}

void fry_ucx_mark_wipe(fry_ucx_mark *mark)
{
    if (mark->words == NULL)
        return;
    fry_store_relaxed(&mark->words[0], 0);
    fry_store_relaxed(&mark->words[1], 0);
    fry_fence(); /* before memory is called quiet; pairs with the kernel's (mark.h) */
    (void)munmap(mark->words, page_bytes());
    mark->words = NULL;
}

fry_ucx_mark_result fry_ucx_mark_read_parts(const fry_ucx_mark_place *place,
                                            const fry_ucx_mark_part *parts, size_t count)
{
    uint64_t words[2] = {0};
    size_t size_bytes = 0;
    struct iovec local[FRY_UCX_MARK_PARTS + 1], remote[FRY_UCX_MARK_PARTS + 1];
    for (size_t i = 0; i < count; i++) {
        local[i] = (struct iovec){parts[i].to, parts[i].size_bytes};
        remote[i] = (struct iovec){(void *)(uintptr_t)parts[i].from, parts[i].size_bytes};
        size_bytes += parts[i].size_bytes;
    }
    local[count] = (struct iovec){words, sizeof words};
    remote[count] = (struct iovec){(void *)(uintptr_t)place->address, sizeof words};
    const ssize_t got = process_vm_readv((pid_t)place->pid, local, count + 1, remote, count + 1, 0);
    if (got < 0)
        return errno == ESRCH ? FRY_UCX_MARK_IS_GONE : FRY_UCX_MARK_UNKNOWN;
    errno = 0;
    if ((size_t)got < size_bytes)
        return FRY_UCX_MARK_UNKNOWN;
    return (size_t)got == size_bytes + sizeof words && words[0] == place->words[0] &&
                   words[1] == place->words[1]
               ? FRY_UCX_MARK_STANDS
               : FRY_UCX_MARK_IS_GONE;
}

fry_ucx_mark_result fry_ucx_mark_read(const fry_ucx_mark_place *place, void *to, uint64_t from,
                                      size_t size_bytes)
{
    const fry_ucx_mark_part part = {to, from, size_bytes};
    return fry_ucx_mark_read_parts(place, &part, size_bytes != 0 ? 1 : 0);
}
