/* A stand-in for a program of nccl-tests: it says how it is used, has a release, and a fat binary of CUDA. */
#include <stdio.h>
#include <string.h>

#ifndef RELEASE
#define RELEASE "2.19.6"
#endif
#ifndef ENDS
#define ENDS 0
#endif

int ncclGetVersion(int *version);
int MPI_Init(int *count, char ***words);

const char release[] = "\0" RELEASE;

struct entry {
    unsigned short kind, version;
    unsigned header;
    unsigned long size;
    unsigned more[3], arch, rest[8];
};
__attribute__((section(".nv_fatbin"), used)) static const struct {
    unsigned magic;
    unsigned short version, header;
    unsigned long size;
    struct entry entries[3];
} fatbin = {
    0xBA55ED50, 1, 16, sizeof(struct entry) * 3,
    {{2, 1, 64, 0, {0}, 70, {0}}, {2, 1, 64, 0, {0}, 80, {0}}, {2, 1, 64, 0, {0}, NEWEST, {0}}},
};

int main(int count, char **words)
{
    int version;
    if (count > 1 && !strcmp(words[1], "-h")) {
        if (!ENDS)
            printf("USAGE: %s \n\t[-h,--help]\n", strrchr(words[0], '/') + 1);
        return ENDS;
    }
    return ncclGetVersion(&version) + MPI_Init(&count, &words) + release[0];
}
