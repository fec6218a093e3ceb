// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what a process sends, and the communicators that it has, through MPI's profiling interface. Preloaded;
// MPI_Finalize writes both to the file that COUNT_MESSAGES names, with the rank behind it.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long long sent;
static int communicators;

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
  int size;
  PMPI_Type_size(type, &size);
  if (to != MPI_PROC_NULL)
    sent += (long long)count * size;
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made) {
  ++communicators;
  return PMPI_Comm_split(comm, color, key, made);
}

int MPI_Comm_free(MPI_Comm *comm) {
  --communicators;
  return PMPI_Comm_free(comm);
}

int MPI_Finalize(void) {
  int rank;
  char name[4096];
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "%s.%d", getenv("COUNT_MESSAGES"), rank);
  FILE *file = fopen(name, "w");
  if (file) {
    fprintf(file, "%lld %d\n", sent, communicators);
    fclose(file);
  }
  return PMPI_Finalize();
}
