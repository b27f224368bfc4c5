#include <stddef.h>
size_t cudnnGetVersion(void) { return CUDNN_CODE; }
