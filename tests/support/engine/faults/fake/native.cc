// An extension that was compiled for the row: it calls into MPI, and has code for GPUs.
extern "C" {
int MPI_Init(void);
#ifdef LACKS
int of_another_release(void);
int native_lacks() { return of_another_release(); }
#endif
int native_work() { return MPI_Init(); }
}
#include "fatbin.h"
