# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries for Arm and RISC-V: static, dynamic and fused kernels in programs without a C library, on every level's processor."""

import shutil
import subprocess

import pytest
import tilewright as tw

CLANG = shutil.which("clang-22")
LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
pytestmark = pytest.mark.skipif(
    CLANG is None or LINKER is None, reason="no clang-22, which compiles for Arm and RISC-V"
)

ARM = ("armv8-a", "neoverse-n1", "neoverse-v1", "armv9-a+sme")
RISCV = ("rv64gcv", "spacemit-x60")
SPECS = {
    "floats": tw.MatmulSpec(m=5, n=7, k=9),
    "any_rows": tw.MatmulSpec(m=None, n=7, k=9),
    "fused": tw.MatmulSpec(m=5, n=7, k=9, epilogue=(tw.bias("n"), tw.relu())),
    "brains": tw.MatmulSpec(m=8, n=8, k=8, a="bf16"),
    "bytes": tw.MatmulSpec(m=8, n=12, k=16, a="i8"),
}

# What the library needs of a C library, and a start: the stack has the arguments, the environment and what Linux says.
PROGRAM = r"""
#include "far.h"
typedef unsigned long word;
#if defined(__aarch64__)
__asm__(".global _start\n_start: mov x0, sp\n bl begin\n");
static long call(long n, long a, long b, long c) {
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#else
__asm__(".global _start\n_start: mv a0, sp\n call begin\n");
static long call(long n, long a, long b, long c) {
  register long a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
}
#endif
static word *auxiliary;
static char **environment;
word getauxval(word type) {
  for (word *at = auxiliary; *at; at += 2) if (*at == type) return at[1];
  return 0;
}
int strcmp(const char *a, const char *b) {
  while (*a && *a == *b) ++a, ++b;
  return *(const unsigned char *)a - *(const unsigned char *)b;
}
char *getenv(const char *name) {
  for (char **at = environment; *at; ++at) {
    const char *n = name;
    char *v = *at;
    while (*n && *n == *v) ++n, ++v;
    if (!*n && *v == '=') return v + 1;
  }
  return 0;
}
void *memset(void *to, int value, word bytes) {
  for (volatile char *p = to; bytes; --bytes) *p++ = value;
  return to;
}
void *memcpy(void *to, const void *from, word bytes) {
  const char *q = from;
  for (volatile char *p = to; bytes; --bytes) *p++ = *q++;
  return to;
}
static char memory[1 << 22] __attribute__((aligned(4096)));
static word used;
void *aligned_alloc(word alignment, word bytes) {
  used = (used + alignment - 1) & -alignment;
  void *found = memory + used;
  used += bytes;
  return used > sizeof memory ? 0 : found;
}
void *malloc(word bytes) { return aligned_alloc(64, bytes); }
void free(void *p) {}
static void say(const char *text) {
  word n = 0;
  if (!text) text = "none";
  while (text[n]) ++n;
  call(64, 1, (long)text, n);
  call(64, 1, (long)" ", 1);
}
static float a[256], b[256], c[256];
static unsigned short ha[256], hb[256];
static signed char ba[256], bb[256];
static int sums[256];
__attribute__((used)) void begin(word *stack) {
  environment = (char **)(stack + 1 + stack[0] + 1);
  char **end = environment;
  while (*end) ++end;
  auxiliary = (word *)(end + 1);
  for (int i = 0; i < 256; ++i) {
    a[i] = i % 7, b[i] = i % 5;
    ha[i] = i % 3 ? 0x3f80 : 0x4000, hb[i] = i % 4 ? 0x3f80 : 0x4000; /* 1 or 2 */
    ba[i] = i % 9 - 4, bb[i] = i % 11 - 5;
  }
  say(far_selected()), say(floats_selected());
  int wrong = 0, status = floats(5, 7, 9, a, 9, b, 7, c, 7);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j) {
      float sum = 0;
      for (int k = 0; k < 9; ++k) sum += a[i * 9 + k] * b[k * 7 + j];
      wrong |= c[i * 7 + j] != sum;
    }
  for (int rows = 1; rows <= 20; ++rows) {
    status |= any_rows(rows, 7, 9, a, 9, b, 7, c, 7);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < 7; ++j) {
        float sum = 0;
        for (int k = 0; k < 9; ++k) sum += a[i * 9 + k] * b[k * 7 + j];
        wrong |= c[i * 7 + j] != sum;
      }
  }
  int64_t of_a[] = {5, 9}, of_b[] = {9, 7}, of_bias[] = {7}, of_c[] = {5, 7};
  float bias[7] = {-60, -50, -40, -30, -20, -10, 0};
  DLDataType f32 = {2, 32, 1};
  DLDevice cpu = {1, 0};
  DLTensor ta = {a, cpu, 2, f32, of_a, 0, 0}, tb = {b, cpu, 2, f32, of_b, 0, 0};
  DLTensor tbias = {bias, cpu, 1, f32, of_bias, 0, 0}, tc = {c, cpu, 2, f32, of_c, 0, 0};
  status |= fused(&ta, &tb, &tbias, &tc);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j) {
      float sum = bias[j];
      for (int k = 0; k < 9; ++k) sum += a[i * 9 + k] * b[k * 7 + j];
      wrong |= c[i * 7 + j] != (sum > 0 ? sum : 0);
    }
  status |= brains(8, 8, 8, ha, 8, hb, 8, c, 8);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += (ha[i * 8 + k] == 0x4000 ? 2 : 1) * (hb[k * 8 + j] == 0x4000 ? 2 : 1);
      wrong |= c[i * 8 + j] != sum;
    }
  status |= bytes(8, 12, 16, ba, 16, bb, 12, sums, 12);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 12; ++j) {
      int sum = 0;
      for (int k = 0; k < 16; ++k) sum += ba[i * 16 + k] * bb[k * 12 + j];
      wrong |= sums[i * 12 + j] != sum;
    }
  say(status == 0 ? "served" : status == 6 ? "refused" : "failed");
  say(wrong ? "wrong" : "right");
  call(93, 0, 0, 0);
}
"""
TRIPLES = {"aarch64": "aarch64-linux-gnu", "riscv64": "riscv64-linux-gnu"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The program of each architecture, on one library for both."""
    folder = tmp_path_factory.mktemp("far")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder / "cache"))
        made = tw.library(SPECS, targets=[*ARM, *RISCV], name="far", out=folder)
    assert {"aarch64/libfar.a", "aarch64/libfar.so", "riscv64/libfar.a", "riscv64/far.pc", "far.h"} <= set(made.files)
    (folder / "main.c").write_text(PROGRAM)
    options = ["-O1", "-ffreestanding", "-fno-builtin", "-nostdlib", "-static", f"--ld-path={LINKER}", f"-I{folder}"]
    for architecture, triple in TRIPLES.items():
        options_here = ["-march=rv64gc", "-mabi=lp64d", "-mno-relax"] if architecture == "riscv64" else []
        command = [CLANG, f"--target={triple}", *options, *options_here, folder / "main.c"]
        command += [folder / architecture / "libfar.a", "-o", folder / architecture / "main"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def emulated(programs, architecture, processor, **variables):
    emulator = shutil.which(f"qemu-{architecture}") or shutil.which(f"qemu-{architecture}-static")
    if emulator is None:
        pytest.skip(f"no emulator of {architecture}")
    command = [emulator, "-cpu", processor, str(programs / architecture / "main")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, f"{done.returncode} {done.stdout} {done.stderr}"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("processor", "level"),
    [
        ("cortex-a72", "armv8-a"),
        ("neoverse-n1", "neoverse-n1"),
        ("max,sve=off,sme=off", "neoverse-n1"),
        ("max,sme=off", "neoverse-v1"),
        ("max,sme=off,sve512=on", "neoverse-v1"),
        ("max,sve-default-vector-length=32,sme-default-vector-length=32", "armv9-a+sme"),
    ],
)
def test_arm(programs, processor, level):
    assert emulated(programs, "aarch64", processor) == [level, level, "served", "right"]


@pytest.mark.parametrize(
    ("processor", "level"),
    [("rv64,v=true,vext_spec=v1.0,vlen=128", "rv64gcv"), ("rv64,v=true,vext_spec=v1.0,vlen=256", "rv64gcv")],
)
def test_riscv(programs, processor, level):
    assert emulated(programs, "riscv64", processor) == [level, level, "served", "right"]


def test_processors_that_lack_everything_are_refused(programs):
    """Also where nothing but the environment says so."""
    assert emulated(programs, "riscv64", "rv64,v=false")[:3] == ["none", "none", "refused"]
    found = emulated(programs, "aarch64", "max,sme=off", TILEWRIGHT_MAX_ISA="armv8-a")
    assert found == ["armv8-a", "armv8-a", "served", "right"]
    assert emulated(programs, "aarch64", "max", TILEWRIGHT_MAX_ISA="x86-64-v3")[:3] == ["none", "none", "refused"]
