/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   A program that forks between calls of a kernel of two threads, as OpenBLAS's fork test does, and calls it from many
   threads.

   Usage: fork early|late. The kernel multiplies matrices of small integers, so that every sum is exact. "early" forks
   before the first call, "late" after it. Each process checks its results and its number of threads, and has a minute.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "product.h"

enum { M = 300, N = 310, K = 320, GENERATIONS = 3, CHILDREN = 2, CALLERS = 4, CALLS = 20 };

static double a[M * K], b[K * N], right[M * N];

static void prepare(void) {
  for (int i = 0; i < M * K; ++i)
    a[i] = i * 7 % 11 - 5;
  for (int i = 0; i < K * N; ++i)
    b[i] = i * 5 % 13 - 6;
  for (int i = 0; i < M; ++i)
    for (int p = 0; p < K; ++p)
      for (int j = 0; j < N; ++j)
        right[i * N + j] += a[i * K + p] * b[p * N + j];
}

static int wrong(void) {
  double *c = malloc(sizeof right);
  memset(c, 0xff, sizeof right);
  int status = product(M, N, K, a, K, b, N, c, N) != 0 || memcmp(c, right, sizeof right) != 0;
  free(c);
  return status;
}

static void check(const char *who) {
  if (wrong()) {
    fprintf(stderr, "%s: wrong numbers\n", who);
    _exit(1);
  }
}

static int threads(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; (entry = readdir(folder));)
    count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void check_team(const char *who) {
  check(who);
  if (threads() != 2) {
    fprintf(stderr, "%s: %d threads; expected 2\n", who, threads());
    _exit(1);
  }
}

/* Children that compute, have children of their own, and compute again; this process computes while they do. */
static void fork_children(int generation) {
  if (generation == GENERATIONS)
    return;
  pid_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; ++i) {
    children[i] = fork();
    if (children[i] < 0) {
      perror("fork");
      _exit(1);
    }
    if (children[i] == 0) {
      alarm(60);
      check_team("child");
      fork_children(generation + 1);
      check("child that has had children");
      _exit(0);
    }
  }
  check("parent of running children");
  for (int i = 0; i < CHILDREN; ++i) {
    int status;
    if (waitpid(children[i], &status, 0) != children[i] || status != 0) {
      fprintf(stderr, "a child ended with status %d\n", status);
      _exit(1);
    }
  }
}

static void *call_often(void *unused) {
  for (int i = 0; i < CALLS; ++i)
    check("one of several callers");
  return unused;
}

int main(int count, char **arguments) {
  alarm(60);
  prepare();
  if (count == 2 && strcmp(arguments[1], "late") == 0)
    check_team("parent");
  fork_children(1);
  check("parent whose children have ended");

  pthread_t callers[CALLERS];
  for (int i = 0; i < CALLERS; ++i)
    if (pthread_create(&callers[i], NULL, call_often, NULL) != 0)
      return 1;
  fork_children(2);
  for (int i = 0; i < CALLERS; ++i)
    pthread_join(callers[i], NULL);
  fork_children(2);
  puts("done");
  return 0;
}
