/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Random calls of one BLAS, compared with another one that is the reference.

   Usage: random_calls SUBJECT REFERENCE SEED FIRST COUNT [START]

   Both are shared libraries. Call number I of a seed is always the same one, so "SEED I 1" repeats a single call. With
   WORD, only routines whose name has it are called. The program prints a line for each difference, then a line for each
   routine and interface, then "N calls, D differences". The exit status is 0 without differences, 1 with some, and 2
   when a library is missing or lacks a routine.

   What a call checks:
   - Half of the calls multiply small integers: every sum is exact in any order, and the results must be equal.
   - The other half multiply numbers from [-1, 1], and the results may differ by what rounding explains. An inner
   product of length k has an error of at most g(k) |a||b| with g(k) = k u / (1 - k u) (Higham, Accuracy and Stability,
   section 3.1), and the sum of |a||b| is at most the product of two Euclidean norms. Two results differ by at most
   twice that. Complex products made of three real ones have eight times the constant.
   - A triangular system has ones to twos on its diagonal, and rows and columns whose other elements sum to at most 1/2:
   the condition number is at most 5, which bounds the relative error of a solution's column by 5 n u for each of the
   two.
   - All that must not be read is NaN: the other triangle, the diagonal of a unit triangle, the imaginary part of a
   Hermitian diagonal, C where beta is 0, A and B where alpha is 0, and what lies between the columns and around the
   matrices.
   - All that must not be written is unchanged, bit for bit. */
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas_calls.h"

enum { LARGEST = 300, MORE_ROWS = 20, GUARD = 64, LARGEST_STEP = 3, MOST_LINES = 50 };
static struct {
  Function subject[NAMES], reference[2];
  long calls[NAMES], differences;
} routines[FAMILIES][4];

static uint64_t state;

static uint64_t next(void) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static int below(int n) { return (int)(next() % (uint64_t)n); }
static int one_in(int n) { return below(n) == 0; }

static int extent(void) {
  switch (below(8)) {
  case 0:
    return below(4);
  case 1:
  case 2:
  case 3:
    return below(41);
  default:
    return below(LARGEST + 1);
  }
}

static char *place(const Matrix *a, int64_t i, int64_t j) {
  return a->first + (size_t)(a->rows_first ? i * a->ld + j : i + j * a->ld) * width(a->call);
}

static void put(const Matrix *a, int64_t i, int64_t j, Z value) {
  char *at = place(a, i, j);
  int parts = 1 + is_complex(a->call);
  for (int part = 0; part < parts; ++part) {
    double d = part ? cimag(value) : creal(value);
    float f = (float)d;
    memcpy(at + (size_t)part * (is_double(a->call) ? 8 : 4), is_double(a->call) ? (void *)&d : (void *)&f,
           is_double(a->call) ? 8 : 4);
  }
}

static Z get(const Matrix *a, int64_t i, int64_t j) {
  double parts[2] = {0, 0};
  char *at = place(a, i, j);
  if (is_double(a->call)) {
    memcpy(parts, at, width(a->call));
  } else {
    float both[2] = {0, 0};
    memcpy(both, at, width(a->call));
    parts[0] = both[0], parts[1] = both[1];
  }
  return both(parts[0], parts[1]);
}

static int stored(const Matrix *a, int64_t i, int64_t j) {
  return a->kind == 'g' || (a->uplo == 'U' ? i <= j : i >= j);
}

/* The element that the operand stands for: of the whole symmetric matrix, of the triangle with its zeros and ones. */
static Z meant(const Matrix *a, int64_t i, int64_t j) {
  if (a->kind == 't')
    return i == j && a->diag == 'U' ? 1 : stored(a, i, j) ? get(a, i, j) : 0;
  if (a->kind == 'h' && i == j)
    return creal(get(a, i, j));
  if (stored(a, i, j))
    return get(a, i, j);
  Z other = get(a, j, i);
  return a->kind == 'h' ? conj(other) : other;
}

static double uniform(void) { return (double)(next() >> 11) * 0x1p-52 - 1; }

static Z number(const Call *call) {
  if (call->integers)
    return both(below(101) - 50, is_complex(call) ? below(101) - 50 : 0);
  double real = uniform();
  return both(real, is_complex(call) ? uniform() : 0);
}

static void fail(const char *what, const char *why) {
  fprintf(stderr, "random_calls: %s: %s\n", what, why);
  exit(2);
}

/* A matrix full of NaN, apart from the elements that a routine may read, unless `hidden`. */
static Matrix matrix(const Call *call, int rows_first, char kind, int64_t rows, int64_t columns, int hidden) {
  Matrix a = {call, rows_first, kind, call->uplo, call->diag, rows, columns, 0, 0, NULL, NULL};
  int64_t inner = rows_first ? columns : rows, outer = rows_first ? rows : columns;
  a.ld = (inner > 0 ? inner : 1) + (one_in(2) ? below(MORE_ROWS) : 0);
  a.bytes = (a.ld * outer + 2 * GUARD) * (int64_t)width(call);
  a.memory = malloc((size_t)a.bytes);
  if (!a.memory)
    fail("malloc", "no memory");
  memset(a.memory, 0xff, (size_t)a.bytes);
  /* Not always at the start of a cache line. */
  a.first = a.memory + (size_t)(GUARD - below(GUARD / 2)) * width(call);
  if (hidden)
    return a;
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) {
      if (!stored(&a, i, j) || (kind == 't' && call->diag == 'U' && i == j))
        continue;
      Z value = number(call);
      if (kind == 'h' && i == j)
        value = both(creal(value), NAN);
      if (call->family == TRSM && kind == 't')
        value = i == j ? both(1.5 + uniform() / 2, 0) : value / (2.9 * (double)rows);
      put(&a, i, j, value);
    }
  return a;
}

static Matrix copy(const Matrix *a) {
  Matrix b = *a;
  b.memory = malloc((size_t)a->bytes);
  if (!b.memory)
    fail("malloc", "no memory");
  memcpy(b.memory, a->memory, (size_t)a->bytes);
  b.first = b.memory + (a->first - a->memory);
  return b;
}

/* The Euclidean norms of the rows of op(a), `sides` 'R', or of its columns, 'C'. */
static void norms(const Matrix *a, char trans, char sides, double *into) {
  int across = (trans == 'N') == (sides == 'R');
  int64_t count = across ? a->rows : a->columns, length = across ? a->columns : a->rows;
  for (int64_t p = 0; p < count; ++p) {
    double sum = 0;
    for (int64_t l = 0; l < length; ++l) {
      Z value = across ? meant(a, p, l) : meant(a, l, p);
      sum += creal(value) * creal(value) + cimag(value) * cimag(value);
    }
    into[p] = sqrt(sum);
  }
}

static Z factor(const Call *call) {
  static const double whole[] = {0, 1, 1, -1, 2};
  double real = call->integers || one_in(2) ? whole[below(5)] : uniform();
  if (!is_complex(call) || one_in(3))
    return real;
  return both(real, call->integers ? below(3) - 1 : uniform());
}

static Call draw(int family, int type) {
  Call call = {.family = family, .type = type, .m = extent(), .n = extent(), .k = extent()};
  Function *names = routines[family][type].subject;
  do
    call.name = below(NAMES);
  while (!names[call.name]);
  call.integers = family != TRSM && one_in(2);
  call.rows_first = in_c(call.name) && one_in(2);
  call.side = "LR"[below(2)], call.uplo = "UL"[below(2)], call.diag = "NU"[below(2)];
  call.transa = "NTC"[below(3)], call.transb = "NTC"[below(3)];
  /* The symmetric ones know no conjugation, the Hermitian ones nothing else. */
  if (is_complex(&call) && (family == SYRK || family == SYR2K))
    call.transa = "NT"[below(2)];
  if (family == HERK || family == HER2K)
    call.transa = "NC"[below(2)];
  call.stepx = (1 + below(LARGEST_STEP)) * (one_in(2) ? -1 : 1);
  call.stepy = (1 + below(LARGEST_STEP)) * (one_in(2) ? -1 : 1);
  call.alpha = factor(&call), call.beta = factor(&call);
  if (family == HERK)
    call.alpha = creal(call.alpha);
  if (family == HERK || family == HER2K)
    call.beta = creal(call.beta);
  return call;
}

/* A vector of gemv as a matrix of one row: its elements lie `step` apart, and backwards from the end when that is
 * negative. */
static Matrix vector(const Call *call, int64_t length, int64_t step, int hidden) {
  Matrix x = {call, 0, 'g', 'U', 'N', 1, length, llabs(step), 0, NULL, NULL};
  x.bytes = (x.ld * length + 2 * GUARD) * (int64_t)width(call);
  x.memory = malloc((size_t)x.bytes);
  if (!x.memory)
    fail("malloc", "no memory");
  memset(x.memory, 0xff, (size_t)x.bytes);
  x.first = x.memory + GUARD * width(call);
  for (int64_t j = 0; j < length && !hidden; ++j)
    put(&x, 0, j, number(call));
  return x;
}

static void describe(const Call *call, uint64_t seed, long index, char *text, size_t size) {
  char name[32];
  snprintf(name, sizeof name, "%c%s", "sdcz"[call->type], families[call->family].name);
  char function[64];
  snprintf(function, sizeof function, patterns[call->name], name);
  snprintf(text, size,
           "%s %s side %c uplo %c trans %c%c diag %c m %lld n %lld k %lld steps %lld %lld alpha %g%+gi beta %g%+gi%s "
           "(%llu %ld 1)",
           function, call->rows_first ? "row-major" : "column-major", call->side, call->uplo, call->transa,
           call->transb, call->diag, (long long)call->m, (long long)call->n, (long long)call->k, (long long)call->stepx,
           (long long)call->stepy, creal(call->alpha), cimag(call->alpha), creal(call->beta), cimag(call->beta),
           call->integers ? " integers" : "", (unsigned long long)seed, index);
}

static void reverse(double *values, int64_t count) {
  for (int64_t i = 0; i < count / 2; ++i) {
    double value = values[i];
    values[i] = values[count - 1 - i], values[count - 1 - i] = value;
  }
}

/* Whether both results agree; `why` says where they do not. Elements that may be written are reset to `before`. */
static int agree(const Call *call, const Matrix *a, const Matrix *b, Matrix *c, Matrix *right, const Matrix *before,
                 char *why, size_t size) {
  static double of_rows[LARGEST + 1], of_columns[LARGEST + 1], further_rows[LARGEST + 1], further_columns[LARGEST + 1];
  double u = is_double(call) ? DBL_EPSILON / 2 : FLT_EPSILON / 2, length = (double)call->k;
  int left = call->side == 'L', twice = call->family == SYR2K || call->family == HER2K;
  int triangle = twice || call->family == SYRK || call->family == HERK || call->family == GEMMTR;
  int solves = call->family == TRSM, hidden = call->alpha == 0;
  char other = call->transa == 'N' ? 'T' : 'N';
  memset(of_rows, 0, sizeof of_rows), memset(of_columns, 0, sizeof of_columns);
  memset(further_rows, 0, sizeof further_rows), memset(further_columns, 0, sizeof further_columns);
  if (!call->integers && !hidden && !solves)
    switch (call->family) {
    case GEMM:
    case GEMMTR:
      norms(a, call->transa, 'R', of_rows), norms(b, call->transb, 'C', of_columns);
      break;
    case GEMV:
      norms(a, call->transa, 'R', of_columns), norms(b, 'N', 'R', of_rows);
      length = (double)b->columns;
      if (call->stepy < 0)
        reverse(of_columns, c->columns);
      break;
    case SYRK:
    case HERK:
      norms(a, call->transa, 'R', of_rows), norms(a, other, 'C', of_columns);
      break;
    case SYR2K:
    case HER2K:
      norms(a, call->transa, 'R', of_rows), norms(b, other, 'C', of_columns);
      norms(b, call->transa, 'R', further_rows), norms(a, other, 'C', further_columns);
      length *= 2;
      break;
    default: {
      const Matrix *factor = call->family == TRMM ? before : b;
      char trans = call->family == TRMM ? call->transa : 'N';
      norms(left ? a : factor, left ? trans : 'N', 'R', of_rows);
      norms(left ? factor : a, left ? 'N' : trans, 'C', of_columns);
      length = (double)a->rows;
    }
    }
  if (solves)
    length = (double)a->rows;
  double constant = 2 * (length + 8) * u * (is_complex(call) ? 8 : 1);
  if (solves)
    for (int64_t j = 0; j < c->columns; ++j)
      for (int64_t i = 0; i < c->rows; ++i) {
        double *most = left ? &of_columns[j] : &of_rows[i], size_here = cabs(get(right, i, j));
        *most = size_here > *most ? size_here : *most;
      }
  int same = 1;
  for (int64_t j = 0; j < c->columns; ++j)
    for (int64_t i = 0; i < c->rows; ++i) {
      if (triangle && !(call->uplo == 'U' ? i <= j : i >= j))
        continue;
      Z ours = get(c, i, j), theirs = get(right, i, j);
      double bound = 0, apart = cabs(ours - theirs);
      if (solves)
        bound = 5 * constant * (left ? of_columns[j] : of_rows[i]);
      else if (!call->integers)
        bound = constant * (cabs(call->alpha) * (of_rows[i] * of_columns[j] + further_rows[i] * further_columns[j]) +
                            (call->beta == 0 || call->family == TRMM ? 0 : cabs(call->beta * meant(before, i, j))));
      if (same && !(apart <= bound) && memcmp(place(c, i, j), place(right, i, j), width(call)) != 0) {
        same = 0;
        snprintf(why, size, "(%lld, %lld) is %.17g%+.17gi, expected %.17g%+.17gi within %.3g", (long long)i,
                 (long long)j, creal(ours), cimag(ours), creal(theirs), cimag(theirs), bound);
      }
      memcpy(place(c, i, j), place(before, i, j), width(call));
    }
  if (same && memcmp(c->memory, before->memory, (size_t)c->bytes) != 0) {
    same = 0;
    snprintf(why, size, "memory outside the result was written");
  }
  return same;
}

static int compare(int family, int type, uint64_t seed, long index) {
  Call call = draw(family, type);
  int left = call.side == 'L', hidden = call.alpha == 0, rows_first = call.rows_first;
  int plain_a = call.transa == 'N', plain_b = call.transb == 'N';
  int64_t m = call.m, n = call.n, k = call.k;
  Matrix a, b = {0}, c;
  int unread = call.beta == 0 && family != TRMM && family != TRSM;
  switch (family) {
  case GEMM:
  case GEMMTR:
    m = family == GEMMTR ? n : m;
    a = matrix(&call, rows_first, 'g', plain_a ? m : k, plain_a ? k : m, hidden);
    b = matrix(&call, rows_first, 'g', plain_b ? k : n, plain_b ? n : k, hidden);
    c = matrix(&call, rows_first, 'g', m, n, unread);
    break;
  case SYMM:
  case HEMM:
    a = matrix(&call, rows_first, family == SYMM ? 's' : 'h', left ? m : n, left ? m : n, hidden);
    b = matrix(&call, rows_first, 'g', m, n, hidden);
    c = matrix(&call, rows_first, 'g', m, n, unread);
    break;
  case TRMM:
  case TRSM:
    a = matrix(&call, rows_first, 't', left ? m : n, left ? m : n, hidden);
    c = matrix(&call, rows_first, 'g', m, n, hidden);
    break;
  case GEMV:
    a = matrix(&call, rows_first, 'g', m, n, hidden);
    b = vector(&call, plain_a ? n : m, call.stepx, hidden);
    c = vector(&call, plain_a ? m : n, call.stepy, unread);
    break;
  default:
    a = matrix(&call, rows_first, 'g', plain_a ? n : k, plain_a ? k : n, hidden);
    b = matrix(&call, rows_first, 'g', plain_a ? n : k, plain_a ? k : n, hidden);
    c = matrix(&call, rows_first, family == HERK || family == HER2K ? 'h' : 's', n, n, unread);
  }
  Matrix a_before = copy(&a), b_before = b.memory ? copy(&b) : b, before = copy(&c), right = copy(&c);
  Factor alpha, beta;
  prepare(&alpha, call.alpha, &call), prepare(&beta, call.beta, &call);
  /* The factors as the routine sees them. */
  call.alpha = is_double(&call) ? call.alpha : both(alpha.f[0], alpha.f[1]);
  call.beta = is_double(&call) ? call.beta : both(beta.f[0], beta.f[1]);
  int c_interface = in_c(call.name);
  (c_interface ? call_c : call_fortran)(&call, routines[family][type].subject[call.name], &alpha, &beta, &a, &b, &c);
  char text[512] = "", why[256] = "";
  int same = memcmp(a.memory, a_before.memory, (size_t)a.bytes) == 0 &&
             (!b.memory || memcmp(b.memory, b_before.memory, (size_t)b.bytes) == 0);
  if (!same)
    snprintf(why, sizeof why, "A or B was written");
  /* The reference knows gemmtr as gemm, of which one triangle is compared. */
  Call whole = call;
  if (family == GEMMTR)
    whole.family = GEMM, whole.m = n;
  (c_interface ? call_c : call_fortran)(&whole, routines[family][type].reference[c_interface], &alpha, &beta, &a_before,
                                        &b_before, &right);
  same = same && agree(&call, &a_before, &b_before, &c, &right, &before, why, sizeof why);
  routines[family][type].calls[call.name]++;
  if (!same) {
    static int lines;
    routines[family][type].differences++;
    describe(&call, seed, index, text, sizeof text);
    if (lines++ < MOST_LINES)
      printf("differs: %s: %s\n", text, why);
  }
  Matrix *all[] = {&a, &b, &c, &a_before, &before, &right};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    free(all[i]->memory);
  if (b.memory)
    free(b_before.memory);
  return same;
}

static void *opened(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(path, dlerror());
  return library;
}

static Function symbol(void *library, const char *pattern, const char *name) {
  char text[64];
  snprintf(text, sizeof text, pattern, name);
  void *found = dlsym(library, text);
  Function function;
  memcpy(&function, &found, sizeof function);
  return function;
}

/* Looks up every routine; the number of those that can be compared, listed in `which` as 4 * family + type. */
static int look_up(const char *subject_path, const char *reference_path, const char *start, int *which) {
  void *subject = opened(subject_path), *reference = opened(reference_path);
  int count = 0;
  for (int family = 0; family < FAMILIES; ++family)
    for (const char *letter = families[family].types; *letter; ++letter) {
      int type = flag("sdcz", *letter), any = 0;
      char name[32], theirs[32];
      snprintf(name, sizeof name, "%c%s", *letter, families[family].name);
      if (start && strncmp(name, start, strlen(start)) != 0)
        continue;
      snprintf(theirs, sizeof theirs, "%c%s", *letter, family == GEMMTR ? "gemm" : families[family].name);
      for (int i = 0; i < NAMES; ++i)
        any |= (routines[family][type].subject[i] = symbol(subject, patterns[i], name)) != NULL;
      for (int i = 0; i < 2; ++i)
        if (!(routines[family][type].reference[i] = symbol(reference, patterns[4 * i], theirs)))
          fail(theirs, "the reference lacks it");
      if (!any && family != GEMMTR)
        fail(name, "the library lacks it");
      if (any)
        which[count++] = 4 * family + type;
    }
  return count;
}

int main(int argc, char **argv) {
  if (argc < 6 || argc > 7)
    fail("usage", "random_calls SUBJECT REFERENCE SEED FIRST COUNT [START]");
  int which[4 * FAMILIES], count = look_up(argv[1], argv[2], argc == 7 ? argv[6] : NULL, which);
  uint64_t seed = strtoull(argv[3], NULL, 10);
  long first = atol(argv[4]), calls = atol(argv[5]), differences = 0;
  if (!count)
    fail(argv[6], "no routine begins with this");
  for (long index = first; index < first + calls; ++index) {
    state = seed * 0xd1342543de82ef95u + (uint64_t)index * 0xaf251af3b0f025b5u;
    next();
    int chosen = which[below(count)];
    differences += !compare(chosen / 4, chosen % 4, seed, index);
    fflush(stdout);
  }
  for (int i = 0; i < count; ++i) {
    int family = which[i] / 4, type = which[i] % 4;
    printf("%c%s:", "sdcz"[type], families[family].name);
    for (int name = 0; name < NAMES; ++name)
      if (routines[family][type].subject[name])
        printf(" %ld", routines[family][type].calls[name]);
    printf(" calls, %ld differences\n", routines[family][type].differences);
  }
  printf("%ld calls, %ld differences\n", calls, differences);
  return differences != 0;
}
