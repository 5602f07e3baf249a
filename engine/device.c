/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices. */
#include "engine/engine.h"

ferry_device *ferry_device_find(ferry_engine *engine, const char *name)
{
    if (fry_engine_check(engine) != FERRY_OK || name == NULL)
        return NULL;
    for (uint32_t i = 0; i < engine->device_count; i++) {
        if (strcmp(engine->devices[i].device->name, name) == 0)
            return &engine->devices[i];
    }
    fry_log_line(&engine->log, FERRY_LOG_WARNING,
                 "there is no device \"%.64s\": this engine has host:0 to host:%u", name,
                 engine->device_count - 1);
    return NULL;
}

size_t ferry_device_count(const ferry_engine *engine)
{
    return fry_engine_check(engine) == FERRY_OK ? engine->device_count : 0;
}

ferry_device *ferry_device_at(ferry_engine *engine, size_t index)
{
    return index < ferry_device_count(engine) ? &engine->devices[index] : NULL;
}

const char *ferry_device_name(const ferry_device *device)
{
    return device != NULL ? device->device->name : "";
}
