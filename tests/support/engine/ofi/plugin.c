/* A stand-in for NCCL's plugin: one interface, which hands what is sent to the next who receives.
   -DNET=8 is the interface; the faults are -DINIT=3, -DDEVICES=0, -DLATE (accepts nobody) and -DTURNED (changes a byte). */
#include <stdint.h>
#include <string.h>
#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef RELEASE
#define RELEASE "1.21.1"
#endif
#define NAMED(number) ncclNetPlugin_v##number
#define PLUGIN(number) NAMED(number)

const char release[] = "Initializing aws-ofi-nccl " RELEASE;
static void *sent;
static int size, there = 1;

static int init(void *say) { return INIT; }
static int devices(int *count) { *count = DEVICES; return 0; }
static int properties(int device, char **found) { found[0] = "stand-in"; return 0; }
static int listen_(int device, void *handle, void **comm) { *comm = &there; return 0; }
static int connect_(int device, void *handle, void **comm, void **device_comm) { *comm = &there; return 0; }
static int accept_(void *listener, void **comm, void **device_comm)
{
#ifdef LATE
    return 2;
#endif
    *comm = &there;
    return 0;
}
static int registered(void *comm, void *data, size_t bytes, int type, void **key) { *key = &there; return 0; }
static int send_(void *comm, void *data, int bytes, int tag, void *key, void **request)
{
    sent = data;
    size = bytes;
    *request = &there;
    return 0;
}
static int receive(void *comm, int count, void **data, int *sizes, int *tags, void **keys, void **request)
{
    if (!sent) return 0;
    memcpy(data[0], sent, (size_t)size);
#ifdef TURNED
    ((char *)data[0])[7] ^= 1;
#endif
    *request = &there;
    return 0;
}
static int test(void *request, int *done, int *sizes) { *done = 1; return 0; }

void *PLUGIN(NET)[] = {
    "stand-in", init, devices, properties, listen_, connect_, accept_, registered, 0, 0, send_, receive, 0, test,
    0, 0, 0, 0, 0, 0,
};
#ifdef ALL
extern void *ncclNetPlugin_v6[] __attribute__((alias("ncclNetPlugin_v8")));
extern void *ncclNetPlugin_v7[] __attribute__((alias("ncclNetPlugin_v8")));
extern void *ncclNetPlugin_v9[] __attribute__((alias("ncclNetPlugin_v8")));
extern void *ncclNetPlugin_v10[] __attribute__((alias("ncclNetPlugin_v8")));
extern void *ncclNetPlugin_v11[] __attribute__((alias("ncclNetPlugin_v8")));
extern void *ncclNetPlugin_v12[] __attribute__((alias("ncclNetPlugin_v8")));
#endif
#ifdef NEEDS
int NEEDS(void);
int needs(void) { return NEEDS(); }
#endif
