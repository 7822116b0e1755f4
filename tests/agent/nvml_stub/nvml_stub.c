/* A driver that is not there: the part of libnvidia-ml.so.1 the agent asks for, told by a text file what to say.
 *
 * $ULLAGE_NVML_SCENARIO names the file. It is read again whenever it changes, so a test can break a GPU while it is being
 * looked at. One line says one thing; `#` begins a comment:
 *
 *   driver CODE                        every initialisation fails with this error
 *   gpu N UUID NAME MIB ARCH           a GPU (underscores in NAME are spaces)
 *   use N MIB PERCENT                  memory in use, utilisation
 *   switch N LINKS                     so many links to switches
 *   bridge A B LINKS                   so many links between two GPUs
 *   hidden N LINKS                     so many links that do not say where they lead
 *   reaches A B                        peer access over NVLink
 *   mig N                              MIG is on
 *   part N UUID PROFILE MIB            a MIG instance
 *   proc N PID MIB c|g|m               a process: compute, graphics, MPS
 *   ecc N NOW EVER                     uncorrected errors
 *   retired N PAGES PENDING
 *   remap N PENDING FAILED
 *   fabric N STATE STATUS              registered with an NVLink fabric
 *   xid N CODE                         an event, delivered once
 *   dies N CALLS                       after so many more calls about it: Xid 79, and lost for ever
 *   fail FUNCTION CODE [N]             this function answers with an error (of one GPU, or of all)
 *   hang FUNCTION [N]                  it does not answer as long as the file says so
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { MOST_GPUS = 32, MOST_LINKS = 36, MOST_PARTS = 8, MOST_PROCESSES = 64, MOST_RULES = 32, MOST_XIDS = 64 };
enum { TO_GPU = 0, TO_SWITCH = 2, TO_UNKNOWN = 0xff };

typedef struct { char uuid[96], profile[64]; int gpu; unsigned long long mib; } Part;
typedef struct { int to, peer; } Link;
typedef struct {
    char uuid[96], name[96];
    unsigned long long mib, used_mib, ecc_now, ecc_ever;
    unsigned int fabric_state, fabric_status, arch, percent, retired, retirement_pending, remap_pending, remap_failed;
    int there, mig, links, parts, calls_left, dead;
    Link link[MOST_LINKS];
    Part part[MOST_PARTS];
    char reaches[MOST_GPUS];
} Gpu;
typedef struct { int gpu; unsigned int pid; unsigned long long mib; char kind; } Process;
typedef struct { char function[80]; int code, hangs, gpu; } Rule;
typedef struct { int gpu; unsigned long long code; } Xid;

static Gpu gpus[MOST_GPUS];
static Process processes[MOST_PROCESSES];
static Rule rules[MOST_RULES];
static Xid xids[MOST_XIDS];
static int gpu_count, process_count, rule_count, xid_count, xids_told, driver_error, initialised;
static struct timespec read_at;
static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;

static void add_links(int gpu, int to, int peer, int number)
{
    while (number-- > 0 && gpus[gpu].links < MOST_LINKS)
        gpus[gpu].link[gpus[gpu].links++] = (Link){to, peer};
}

static void read_gpu_line(const char *word, const char *rest, int n)
{
    Gpu *gpu = &gpus[n];
    int a, b;
    char text[96], other[96];
    unsigned long long mib;
    if (!strcmp(word, "gpu") && sscanf(rest, "%*d %95s %95s %llu %u", text, other, &mib, &gpu->arch) == 4) {
        for (char *c = other; *c; c++)
            if (*c == '_') *c = ' ';
        strcpy(gpu->uuid, text);
        strcpy(gpu->name, other);
        gpu->mib = mib;
        gpu->there = 1;
        if (n >= gpu_count) gpu_count = n + 1;
    } else if (!strcmp(word, "use")) {
        sscanf(rest, "%*d %llu %u", &gpu->used_mib, &gpu->percent);
    } else if (!strcmp(word, "switch") && sscanf(rest, "%*d %d", &a) == 1) {
        add_links(n, TO_SWITCH, -1, a);
    } else if (!strcmp(word, "hidden") && sscanf(rest, "%*d %d", &a) == 1) {
        add_links(n, TO_UNKNOWN, -1, a);
    } else if (!strcmp(word, "bridge") && sscanf(rest, "%*d %d %d", &a, &b) == 2) {
        add_links(n, TO_GPU, a, b);
        add_links(a, TO_GPU, n, b);
    } else if (!strcmp(word, "reaches") && sscanf(rest, "%*d %d", &a) == 1) {
        gpu->reaches[a] = gpus[a].reaches[n] = 1;
    } else if (!strcmp(word, "mig")) {
        gpu->mig = 1;
    } else if (!strcmp(word, "part") && gpu->parts < MOST_PARTS) {
        Part *part = &gpu->part[gpu->parts++];
        part->gpu = n;
        sscanf(rest, "%*d %95s %63s %llu", part->uuid, part->profile, &part->mib);
    } else if (!strcmp(word, "proc") && process_count < MOST_PROCESSES) {
        Process *process = &processes[process_count++];
        process->gpu = n;
        sscanf(rest, "%*d %u %llu %c", &process->pid, &process->mib, &process->kind);
    } else if (!strcmp(word, "ecc")) {
        sscanf(rest, "%*d %llu %llu", &gpu->ecc_now, &gpu->ecc_ever);
    } else if (!strcmp(word, "retired")) {
        sscanf(rest, "%*d %u %u", &gpu->retired, &gpu->retirement_pending);
    } else if (!strcmp(word, "remap")) {
        sscanf(rest, "%*d %u %u", &gpu->remap_pending, &gpu->remap_failed);
    } else if (!strcmp(word, "fabric")) {
        sscanf(rest, "%*d %u %u", &gpu->fabric_state, &gpu->fabric_status);
    } else if (!strcmp(word, "xid") && xid_count < MOST_XIDS) {
        xids[xid_count].gpu = n;
        sscanf(rest, "%*d %llu", &xids[xid_count++].code);
    } else if (!strcmp(word, "dies")) {
        sscanf(rest, "%*d %d", &gpu->calls_left);
    }
}

static void read_line(const char *line)
{
    char word[32];
    int n, length = 0;
    if (sscanf(line, "%31s%n", word, &length) != 1 || word[0] == '#') return;
    const char *rest = line + length;
    if (!strcmp(word, "driver")) {
        sscanf(rest, "%d", &driver_error);
    } else if ((!strcmp(word, "fail") || !strcmp(word, "hang")) && rule_count < MOST_RULES) {
        Rule *rule = &rules[rule_count++];
        memset(rule, 0, sizeof *rule);
        rule->gpu = -1;
        rule->hangs = word[0] == 'h';
        if (rule->hangs) sscanf(rest, "%79s %d", rule->function, &rule->gpu);
        else sscanf(rest, "%79s %d %d", rule->function, &rule->code, &rule->gpu);
    } else if (sscanf(rest, "%d", &n) == 1 && n >= 0 && n < MOST_GPUS) {
        read_gpu_line(word, rest, n);
    }
}

/* Called with the mutex held. A GPU that is dead stays dead until the driver is loaded again. */
static void read_scenario(int afresh)
{
    const char *path = getenv("ULLAGE_NVML_SCENARIO");
    struct stat now;
    char line[512], dead[MOST_GPUS] = {0};
    if (!path || stat(path, &now)) { rule_count = 0; return; }
    if (!afresh && now.st_mtim.tv_sec == read_at.tv_sec && now.st_mtim.tv_nsec == read_at.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    read_at = now.st_mtim;
    for (int n = 0; n < MOST_GPUS; n++) dead[n] = !afresh && gpus[n].dead;
    memset(gpus, 0, sizeof gpus);
    gpu_count = process_count = rule_count = xid_count = xids_told = driver_error = 0;
    for (int n = 0; n < MOST_GPUS; n++) { gpus[n].calls_left = -1; gpus[n].dead = dead[n]; }
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
}

static const Rule *rule_for(const char *function, int gpu)
{
    for (int n = 0; n < rule_count; n++)
        if (!strcmp(rules[n].function, function) && (rules[n].gpu < 0 || rules[n].gpu == gpu)) return &rules[n];
    return NULL;
}

/* What every call begins with: takes the mutex, hangs or fails if it has to. The mutex is held if it returns OK. */
static int enter(const char *function, int gpu)
{
    pthread_mutex_lock(&state);
    if (!initialised) { pthread_mutex_unlock(&state); return UNINITIALIZED; }
    read_scenario(0);
    const Rule *rule;
    while ((rule = rule_for(function, gpu)) && rule->hangs) {
        pthread_mutex_unlock(&state);
        usleep(10000);
        pthread_mutex_lock(&state);
        read_scenario(0);
    }
    int code = rule ? rule->code : OK;
    if (gpu >= 0 && gpus[gpu].calls_left > 0) gpus[gpu].calls_left--;
    if (gpu >= 0 && gpus[gpu].calls_left == 0 && !gpus[gpu].dead) {
        gpus[gpu].dead = 1;
        if (xid_count < MOST_XIDS) xids[xid_count++] = (Xid){gpu, 79};
    }
    if (!code && gpu >= 0 && gpus[gpu].dead) code = GPU_IS_LOST;
    if (code) pthread_mutex_unlock(&state);
    return code;
}

static int leave(int code) { pthread_mutex_unlock(&state); return code; }

static Part *as_part(void *device)
{
    char *at = device, *first = (char *)gpus;
    if (at < first || at >= (char *)(gpus + MOST_GPUS)) return NULL;
    Gpu *gpu = &gpus[(at - first) / (long)sizeof(Gpu)];
    return at == (char *)gpu ? NULL : (Part *)device;
}

static int number_of(void *device)
{
    char *at = device, *first = (char *)gpus;
    return at < first || at >= (char *)(gpus + MOST_GPUS) ? -1 : (int)((at - first) / (long)sizeof(Gpu));
}

#define ASKED(device)                                              \
    int n = number_of(device);                                     \
    if (n < 0) return INVALID_ARGUMENT;                            \
    int entered = enter(__func__, n);                              \
    if (entered) return entered;                                   \
    Gpu *gpu = &gpus[n];                                           \
    (void)gpu

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&state);
    read_scenario(1);
    if (!driver_error) initialised++;
    return leave(driver_error);
}

int nvmlShutdown(void)
{
    pthread_mutex_lock(&state);
    if (initialised) initialised--;
    return leave(OK);
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case 9: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 999: return "Unknown Error";
    default: return "An error";
    }
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    int entered = enter(__func__, -1);
    if (entered) return entered;
    snprintf(text, size, "580.65.06");
    return leave(OK);
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    int entered = enter(__func__, -1);
    if (entered) return entered;
    *count = (unsigned)gpu_count;
    return leave(OK);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    int entered = enter(__func__, index < MOST_GPUS ? (int)index : -1);
    if (entered) return entered;
    if ((int)index >= gpu_count) return leave(INVALID_ARGUMENT);
    *device = &gpus[index];
    return leave(OK);
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    ASKED(device);
    Part *part = as_part(device);
    snprintf(text, size, "%s", part ? part->uuid : gpu->uuid);
    return leave(OK);
}

int nvmlDeviceGetName(void *device, char *text, unsigned int size)
{
    ASKED(device);
    Part *part = as_part(device);
    if (part) snprintf(text, size, "%s MIG %s", gpu->name, part->profile);
    else snprintf(text, size, "%s", gpu->name);
    return leave(OK);
}

typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory)
{
    ASKED(device);
    Part *part = as_part(device);
    memory->total = (part ? part->mib : gpu->mib) << 20;
    memory->used = part ? 0 : gpu->used_mib << 20;
    memory->free = memory->total - memory->used;
    return leave(OK);
}

typedef struct { char legacy[16]; unsigned int domain, bus, device, device_id, subsystem; char bus_id[32]; } Pci;
static void fill_pci(int n, Pci *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10u + (unsigned)n;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus & 0xffu);
}

int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci)
{
    ASKED(device);
    fill_pci(n, pci);
    return leave(OK);
}

int nvmlDeviceGetArchitecture(void *device, unsigned int *arch)
{
    ASKED(device);
    *arch = gpu->arch;
    return leave(OK);
}

int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)
{
    ASKED(device);
    if (!gpu->links) return leave(NOT_SUPPORTED);
    if (link >= 18 && (int)link >= gpu->links) return leave(INVALID_ARGUMENT);
    *active = (int)link < gpu->links;
    return leave(OK);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, int *type)
{
    ASKED(device);
    if ((int)link >= gpu->links) return leave(INVALID_ARGUMENT);
    *type = gpu->link[link].to;
    return leave(OK);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, Pci *pci)
{
    ASKED(device);
    if ((int)link >= gpu->links) return leave(INVALID_ARGUMENT);
    if (gpu->link[link].to != TO_GPU) return leave(NOT_SUPPORTED);
    fill_pci(gpu->link[link].peer, pci);
    return leave(OK);
}

int nvmlDeviceGetP2PStatus(void *device, void *other, int capability, int *status)
{
    ASKED(device);
    int peer = number_of(other);
    *status = capability == 2 && peer >= 0 && gpu->reaches[peer] ? 0 : 1;
    return leave(OK);
}

int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending)
{
    ASKED(device);
    if (gpu->arch < 7) return leave(NOT_SUPPORTED);
    *current = *pending = (unsigned)gpu->mig;
    return leave(OK);
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count)
{
    ASKED(device);
    *count = gpu->mig ? MOST_PARTS : 0;
    return leave(OK);
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **part)
{
    ASKED(device);
    if ((int)index >= gpu->parts) return leave(NOT_FOUND);
    *part = &gpu->part[index];
    return leave(OK);
}

typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } ProcessInfo;
static int list_processes(int n, char kind, unsigned int *count, ProcessInfo *found)
{
    unsigned int there = 0, room = *count;
    for (int p = 0; p < process_count; p++) there += processes[p].gpu == n && processes[p].kind == kind;
    *count = there;
    if (!there) return leave(OK);
    if (!found || room < there) return leave(INSUFFICIENT_SIZE);
    for (int p = 0; p < process_count; p++)
        if (processes[p].gpu == n && processes[p].kind == kind)
            *found++ = (ProcessInfo){processes[p].pid, processes[p].mib << 20, ~0u, ~0u};
    return leave(OK);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, ProcessInfo *found)
{
    ASKED(device);
    return list_processes(n, 'c', count, found);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, ProcessInfo *found)
{
    ASKED(device);
    return gpu->mig ? leave(NOT_SUPPORTED) : list_processes(n, 'g', count, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned int *count, ProcessInfo *found)
{
    ASKED(device);
    return list_processes(n, 'm', count, found);
}

typedef struct { unsigned int gpu, memory; } Utilisation;
int nvmlDeviceGetUtilizationRates(void *device, Utilisation *rates)
{
    ASKED(device);
    if (gpu->mig) return leave(NOT_SUPPORTED);
    rates->gpu = gpu->percent;
    rates->memory = gpu->mib ? (unsigned)(gpu->used_mib * 100 / gpu->mib) : 0;
    return leave(OK);
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count)
{
    ASKED(device);
    *count = type == 1 ? (counter == 0 ? gpu->ecc_now : gpu->ecc_ever) : 0;
    return leave(OK);
}

int nvmlDeviceGetMemoryErrorCounter(void *device, int type, int counter, int place, unsigned long long *count)
{
    ASKED(device);
    if (place != 2) return leave(NOT_SUPPORTED);
    *count = type == 1 ? (counter == 0 ? gpu->ecc_now : gpu->ecc_ever) : 0;
    return leave(OK);
}

typedef struct {
    unsigned int version;
    unsigned char cluster[16];
    int status;
    unsigned int clique, state, health;
} Fabric;
int nvmlDeviceGetGpuFabricInfoV(void *device, Fabric *fabric)
{
    ASKED(device);
    if (gpu->arch < 9) return leave(NOT_SUPPORTED);
    fabric->state = gpu->fabric_state;
    fabric->status = (int)gpu->fabric_status;
    return leave(OK);
}

int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned int *count, unsigned long long *pages)
{
    ASKED(device);
    if (gpu->arch >= 7) return leave(NOT_SUPPORTED);
    unsigned int there = cause == 1 ? gpu->retired : 0, room = *count;
    *count = there;
    if (there > room || !pages) return leave(there ? INSUFFICIENT_SIZE : OK);
    for (unsigned int p = 0; p < there; p++) pages[p] = 4096ull * p;
    return leave(OK);
}

int nvmlDeviceGetRetiredPagesPendingStatus(void *device, int *pending)
{
    ASKED(device);
    if (gpu->arch >= 7) return leave(NOT_SUPPORTED);
    *pending = (int)gpu->retirement_pending;
    return leave(OK);
}

int nvmlDeviceGetRemappedRows(void *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending,
                              unsigned int *failed)
{
    ASKED(device);
    if (gpu->arch < 7) return leave(NOT_SUPPORTED);
    *corrected = *uncorrected = 0;
    *pending = gpu->remap_pending;
    *failed = gpu->remap_failed;
    return leave(OK);
}

int nvmlEventSetCreate(void **set)
{
    static int the_set;
    *set = &the_set;
    return OK;
}

int nvmlEventSetFree(void *set) { (void)set; return OK; }

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    ASKED(device);
    (void)types; (void)set;
    return leave(OK);
}

typedef struct { void *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; } EventData;
int nvmlEventSetWait_v2(void *set, EventData *event, unsigned int milliseconds)
{
    (void)set;
    for (unsigned int waited = 0;; waited += 10) {
        int entered = enter(__func__, -1);
        if (entered) return entered;
        if (xids_told < xid_count) {
            Xid xid = xids[xids_told++];
            *event = (EventData){&gpus[xid.gpu], 8, xid.code, ~0u, ~0u};
            return leave(OK);
        }
        leave(OK);
        if (waited >= milliseconds) return TIMEOUT;
        usleep(10000);
    }
}
