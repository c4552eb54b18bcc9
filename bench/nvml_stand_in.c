/* What an H200 node answers, as a libnvidia-ml.so.1: stands behind the real nvidia-ml-py, whose cost is ours to bear,
 * where there is no driver. Values are those of tests/golden/nvidia_smi/h200.txt; byte counters grow with the time.
 * NVML_GPUS is their number (8), NVML_NS the nanoseconds on the core that each answer takes besides (0).
 * Functions and structures: NVML API reference. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int uint;
typedef unsigned long long ullong;
typedef uintptr_t gpu;
enum { NOT_SUPPORTED = 3, FIELD_LINKS = 91, FIELD_POWER = 186, FIELD_MEM_TEMPERATURE = 82, FIELD_LINK_SPEED = 164 };

static long spend_ns;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int answered(void) {
  if (spend_ns)
    for (int64_t until = now_ns() + spend_ns; now_ns() < until;) {
    }
  return 0;
}

static int given(uint *to, uint value) {
  *to = value;
  return answered();
}

int nvmlInitWithFlags(uint flags) {
  (void)flags;
  const char *said = getenv("NVML_NS");
  spend_ns = said ? atol(said) : 0;
  return 0;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(uint *count) {
  const char *said = getenv("NVML_GPUS");
  return given(count, said ? (uint)atoi(said) : 8);
}
int nvmlDeviceGetHandleByIndex_v2(uint index, gpu *handle) {
  *handle = index + 1;
  return 0;
}
int nvmlDeviceGetUUID(gpu handle, char *uuid, uint size) {
  strncpy(uuid, "GPU-00000000-0000-0000-0000-000000000000", size);
  uuid[39] = (char)('0' + handle % 10);
  return 0;
}
int nvmlDeviceGetClockInfo(gpu handle, int kind, uint *mhz) { return given(mhz, kind == 2 ? 3201 : 1980); }
int nvmlDeviceGetMaxClockInfo(gpu handle, int kind, uint *mhz) { return given(mhz, kind == 2 ? 3201 : 1980); }
int nvmlDeviceGetUtilizationRates(gpu handle, uint *percent) {
  percent[1] = 7;
  return given(percent, 100);
}
int nvmlDeviceGetMemoryInfo(gpu handle, ullong *bytes) {
  bytes[0] = 143771ULL << 20;
  bytes[2] = 32362ULL << 20;
  bytes[1] = bytes[0] - bytes[2];
  return answered();
}
int nvmlDeviceGetPowerUsage(gpu handle, uint *mw) { return given(mw, 627320); }
int nvmlDeviceGetEnforcedPowerLimit(gpu handle, uint *mw) { return given(mw, 700000); }
int nvmlDeviceGetTotalEnergyConsumption(gpu handle, ullong *mj) {
  *mj = (ullong)now_ns() / 1600;
  return answered();
}
int nvmlDeviceGetTemperature(gpu handle, int sensor, uint *celsius) { return given(celsius, 52); }
int nvmlDeviceGetCurrentClocksEventReasons(gpu handle, ullong *reasons) {
  *reasons = 0;
  return answered();
}
int nvmlDeviceGetTotalEccErrors(gpu handle, int kind, int counter, ullong *errors) {
  *errors = 0;
  return answered();
}
int nvmlDeviceGetRetiredPages(gpu handle, int cause, uint *count, ullong *pages) { return NOT_SUPPORTED; }
int nvmlDeviceGetRemappedRows(gpu handle, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
  *corrected = *uncorrected = *pending = *failed = 0;
  return answered();
}
int nvmlDeviceGetPcieReplayCounter(gpu handle, uint *count) { return given(count, 0); }
int nvmlDeviceGetMaxPcieLinkGeneration(gpu handle, uint *generation) { return given(generation, 5); }
int nvmlDeviceGetMaxPcieLinkWidth(gpu handle, uint *width) { return given(width, 16); }
int nvmlDeviceGetMigMode(gpu handle, uint *current, uint *pending) {
  *pending = 0;
  return given(current, 0);
}

struct field {
  uint id, scope;
  int64_t timestamp, latency;
  uint type, error;
  ullong value;
};
int nvmlDeviceGetFieldValues(gpu handle, int count, struct field *fields) {
  for (struct field *one = fields; one < fields + count; one++) {
    one->error = 0;
    one->type = 3; /* unsigned long long */
    one->value = one->id == FIELD_LINKS             ? 18
                 : one->id == FIELD_LINK_SPEED      ? 26562
                 : one->id == FIELD_POWER           ? 625240
                 : one->id == FIELD_MEM_TEMPERATURE ? 41
                                                    : (ullong)now_ns() * one->id;
  }
  return answered();
}

struct metrics {
  uint version, count;
  void *first, *second;
  struct {
    uint id, error;
    double value;
    const char *texts[3];
  } metrics[];
};
int nvmlGpmQueryDeviceSupport(gpu handle, uint *support) {
  support[1] = 1;
  return answered();
}
int nvmlGpmSampleAlloc(void **sample) {
  *sample = malloc(8);
  return *sample ? 0 : 20;
}
int nvmlGpmSampleFree(void *sample) {
  free(sample);
  return 0;
}
int nvmlGpmSampleGet(gpu handle, void *sample) { return answered(); }
int nvmlGpmMetricsGet(struct metrics *wanted) {
  for (uint place = 0; place < wanted->count; place++) {
    wanted->metrics[place].error = 0;
    wanted->metrics[place].value = 50;
  }
  return answered();
}
