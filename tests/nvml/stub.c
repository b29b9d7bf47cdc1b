/* NVML as the binding sees it, on GPUs that are lines in the file named by NVML_STUB:
 *
 *   gpus 2               how many there are
 *   driver !9            every call answers with this error until NVML is started anew,
 *                        and so does starting it
 *   0 !15                every call on GPU 0 answers with this error, likewise
 *   0.temperature 61     what GPU 0 answers, or, as above, with which error
 *
 * A GPU's Xids are a list of all so far, "31,79"; events tell those that were not in it when they
 * were asked for, also of a GPU that is down.
 *
 * The file is read at each call, so a test can change an answer while the sampler runs.
 * What has no line is not supported. OLD_DRIVER leaves out what drivers before 535 lack,
 * NEW_DRIVER what later ones will no longer have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, MEMORY = 20 };
enum { SM_CLOCK = 1, VOLATILE = 0, XID_CRITICAL_ERROR = 8 };

struct memory { unsigned long long total, free, used; };
struct utilization { unsigned int gpu, memory; };
struct temperature { unsigned int version, sensor; int celsius; };
struct event { char *gpu; unsigned long long type, data; unsigned int gpu_instance, instance; };
struct events { int used, told; char *gpu; };

static int users;      /* starts without an end yet, as NVML counts them */
static char gpus[64];  /* their addresses are the handles */
static int down[64];   /* the error of each that was lost since NVML was started */
static struct events sets[8];

/* Looks the key up: an error, SUCCESS with the value's text, or `otherwise` without a line. */
static int look_up(const char *key, char text[96], int otherwise) {
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[64];
    int found = 0;
    while (file && !found && fscanf(file, "%63s %95s", name, text) == 2)
        found = strcmp(name, key) == 0;
    if (file)
        fclose(file);
    if (!found)
        return otherwise;
    return text[0] == '!' ? atoi(text + 1) : SUCCESS;
}

/* A word about the driver (gpu < 0) or one GPU, unless it, or what it hangs on, is down. */
static int ask(int gpu, const char *what, char text[96]) {
    char key[64];
    int error = look_up("driver", text, SUCCESS);
    if (!users)
        return UNINITIALIZED;
    if (error) {
        users = 0;
        return error;
    }
    if (gpu < 0)
        return look_up(what, text, NOT_SUPPORTED);
    snprintf(key, sizeof key, "%d", gpu);
    if ((error = look_up(key, text, SUCCESS)))
        down[gpu] = error;
    if (down[gpu])
        return down[gpu];
    snprintf(key, sizeof key, "%d.%s", gpu, what);
    return look_up(key, text, NOT_SUPPORTED);
}

static int number(const char *gpu, const char *what, unsigned long long *value) {
    char text[96];
    int error = ask((int)(gpu - gpus), what, text);
    if (!error)
        *value = strtoull(text, NULL, 0);
    return error;
}

static int small(const char *gpu, const char *what, unsigned int *value) {
    unsigned long long wide = 0;
    int error = number(gpu, what, &wide);
    if (!error)
        *value = (unsigned int)wide;
    return error;
}

int nvmlInitWithFlags(unsigned int flags) {
    char text[96];
    int error = look_up("driver", text, SUCCESS);
    (void)flags;
    if (error)
        return error;
    if (!users++)
        memset(down, 0, sizeof down);
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!users)
        return UNINITIALIZED;
    users--;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    char text[96];
    int error = ask(-1, "gpus", text);
    if (!error)
        *count = (unsigned int)atoi(text);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, char **gpu) {
    char text[96];
    int error = ask((int)index, "uuid", text);
    *gpu = gpus + index;
    return error;
}

int nvmlDeviceGetUUID(char *gpu, char *uuid, unsigned int length) {
    char text[96];
    int error = ask((int)(gpu - gpus), "uuid", text);
    if (!error)
        snprintf(uuid, length, "%s", text);
    return error;
}

int nvmlDeviceGetUtilizationRates(char *gpu, struct utilization *rates) {
    rates->memory = 0;
    return small(gpu, "utilization", &rates->gpu);
}

int nvmlDeviceGetMemoryInfo(char *gpu, struct memory *memory) {
    int error = number(gpu, "memory_size", &memory->total);
    if (!error)
        error = number(gpu, "memory_used", &memory->used);
    memory->free = memory->total - memory->used;
    return error;
}

int nvmlDeviceGetPowerUsage(char *gpu, unsigned int *milliwatts) {
    return small(gpu, "power", milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(char *gpu, unsigned int *milliwatts) {
    return small(gpu, "power_limit", milliwatts);
}

int nvmlDeviceGetClockInfo(char *gpu, unsigned int clock, unsigned int *megahertz) {
    return clock != SM_CLOCK ? INVALID_ARGUMENT : small(gpu, "sm_clock", megahertz);
}

int nvmlDeviceGetMaxClockInfo(char *gpu, unsigned int clock, unsigned int *megahertz) {
    return clock != SM_CLOCK ? INVALID_ARGUMENT : small(gpu, "sm_clock_max", megahertz);
}

int nvmlDeviceGetTotalEccErrors(char *gpu, unsigned int kind, unsigned int since,
                                unsigned long long *count) {
    if (since != VOLATILE)
        return INVALID_ARGUMENT;
    return number(gpu, kind ? "ecc_uncorrected" : "ecc_corrected", count);
}

/* The Xid at this place of a list, 0 behind its end. */
static int xid(const char *list, int place) {
    while (list && place--)
        list = (list = strchr(list, ',')) ? list + 1 : NULL;
    return list ? atoi(list) : 0;
}

int nvmlEventSetCreate(struct events **set) {
    struct events *end = sets + sizeof sets / sizeof *sets;
    for (*set = sets; *set < end && (*set)->used; ++*set)
        ;
    if (!users || *set == end)
        return users ? MEMORY : UNINITIALIZED;
    memset(*set, 0, sizeof **set);
    (*set)->used = 1;
    return SUCCESS;
}

int nvmlEventSetFree(struct events *set) {
    set->used = 0;
    return SUCCESS;
}

/* No part of NVML: frees what a test has left behind. */
void stub_free_all(void) {
    memset(sets, 0, sizeof sets);
}

int nvmlDeviceRegisterEvents(char *gpu, unsigned long long types, struct events *set) {
    char text[96];
    int error = ask((int)(gpu - gpus), "xids", text);
    if (error || types != XID_CRITICAL_ERROR)
        return error ? error : INVALID_ARGUMENT;
    for (set->gpu = gpu; xid(text, set->told); set->told++)
        ;
    return SUCCESS;
}

int nvmlEventSetWait_v2(struct events *set, struct event *event, unsigned int milliseconds) {
    char key[64], text[96];
    snprintf(key, sizeof key, "%d.xids", (int)(set->gpu - gpus));
    event->gpu = set->gpu;
    event->type = XID_CRITICAL_ERROR;
    if (!users || milliseconds)
        return users ? INVALID_ARGUMENT : UNINITIALIZED;
    if (look_up(key, text, NOT_SUPPORTED) || !xid(text, set->told))
        return TIMEOUT;
    event->data = (unsigned long long)xid(text, set->told++);
    return SUCCESS;
}

#ifndef NEW_DRIVER
int nvmlDeviceGetTemperature(char *gpu, unsigned int sensor, unsigned int *celsius) {
    return sensor ? INVALID_ARGUMENT : small(gpu, "temperature", celsius);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(char *gpu, unsigned long long *reasons) {
    return number(gpu, "reasons", reasons);
}
#endif

#ifndef OLD_DRIVER
int nvmlDeviceGetTemperatureV(char *gpu, struct temperature *temperature) {
    return small(gpu, "temperature", (unsigned int *)&temperature->celsius);
}

int nvmlDeviceGetCurrentClocksEventReasons(char *gpu, unsigned long long *reasons) {
    return number(gpu, "reasons", reasons);
}
#endif
