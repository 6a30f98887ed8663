/* The shim, which stands before every kernel, has what a kernel takes from this header. */
#include "cuda_shim.h"
