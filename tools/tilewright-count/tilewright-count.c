// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plugin of QEMU's user-mode emulation that counts instructions: those executed from the latest call of the program's
// function `tilewright_begin` to the next one of `tilewright_end`. It prints them on QEMU's log, with
//
//   qemu-aarch64 -plugin libtilewright-count.so -d plugin PROGRAM
//
// which also has QEMU read the program's symbols. A block of instructions is counted as it is entered: exact, unless a
// fault leaves it.
//
// The declarations are those of QEMU's documentation, "QEMU TCG Plugins", for the interface that QEMU_PLUGIN_VERSION
// says (1: QEMU 4.2 to 8.2; 2: from 9.0): Debian's packages have no header for it before QEMU 8.1. One thread only.

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t, void *);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int, void *);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t,
                                          enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, qemu_plugin_udata_cb_t, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t executed; // since the program started
static uint64_t begin;    // what `executed` was then
static uint64_t counted;  // what is printed

static void began(unsigned int cpu, void *unused) { begin = executed; }

static void ended(unsigned int cpu, void *unused) { counted = executed - begin; }

static void entered(unsigned int cpu, void *instructions) { executed += (uintptr_t)instructions; }

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  const char *function = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
  qemu_plugin_vcpu_udata_cb_t callback = entered;
  if (function && !strcmp(function, "tilewright_begin"))
    callback = began;
  else if (function && !strcmp(function, "tilewright_end"))
    callback = ended;
  qemu_plugin_register_vcpu_tb_exec_cb(block, callback, QEMU_PLUGIN_CB_NO_REGS,
                                       (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void report(qemu_plugin_id_t id, void *unused) {
  char line[64];
  snprintf(line, sizeof line, "tilewright-count: %" PRIu64 "\n", counted);
  qemu_plugin_outs(line);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, report, NULL);
  return 0;
}
