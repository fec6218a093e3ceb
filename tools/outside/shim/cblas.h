/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The system's CBLAS with OpenBLAS's name of an index. */
#include "common.h"

#include <cblas-netlib.h>
