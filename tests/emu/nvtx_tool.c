/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/nvtx_tool.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define RANGES_MAX 65536

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORT void nvtx_tool_get_report(nvtx_tool_report *report);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvtx_tool_report report_now;
static bool is_under_way[RANGES_MAX]; /* by id, from 1 on */
static char domain;                   /* its address is the handle */

static nvtxDomainHandle_t create_domain(const char *name)
{
    (void)snprintf(report_now.domain, sizeof report_now.domain, "%s", name);
    return (nvtxDomainHandle_t)(void *)&domain;
}

static nvtxRangeId_t start_range(nvtxDomainHandle_t in, const nvtxEventAttributes_t *attributes)
{
    (void)pthread_mutex_lock(&lock);
    uint64_t index = report_now.started++;
    if ((void *)in != &domain || attributes->messageType != NVTX_MESSAGE_TYPE_ASCII)
        report_now.strange++;
    if (index < NVTX_TOOL_NAMES) {
        (void)snprintf(report_now.names[index], sizeof report_now.names[index], "%s",
                       attributes->message.ascii);
        report_now.payloads[index] = attributes->payload.ullValue;
    }
    if (index + 1 < RANGES_MAX)
        is_under_way[index + 1] = true;
    (void)pthread_mutex_unlock(&lock);
    return index + 1;
}

static void end_range(nvtxDomainHandle_t in, nvtxRangeId_t id)
{
    (void)pthread_mutex_lock(&lock);
    report_now.ended++;
    if ((void *)in != &domain || id >= RANGES_MAX || !is_under_way[id])
        report_now.strange++;
    else
        is_under_way[id] = false;
    (void)pthread_mutex_unlock(&lock);
}

void nvtx_tool_get_report(nvtx_tool_report *report)
{
    (void)pthread_mutex_lock(&lock);
    *report = report_now;
    (void)pthread_mutex_unlock(&lock);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size = 0;
    if (callbacks == NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start_range;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end_range;
    return 1;
}
