// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMX on a machine without it, for tests: the illegal-instruction signal of each AMX instruction runs it on tiles in
// memory, and counts it. What hardware would fault on ends the process with a message and status 86.
//
// Semantics: Intel 64 and IA-32 Architectures Software Developer's Manual (order number 325383), volume 2, LDTILECFG to
// TILEZERO, and volume 1, "Programming with Intel AMX". Linux on x86-64 only; memory operands without segment prefix.

#define _GNU_SOURCE
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

enum Kind {
  LDTILECFG,
  STTILECFG,
  TILERELEASE,
  TILEZERO,
  TILELOADD,
  TILELOADDT1,
  TILESTORED,
  TDPBSSD,
  TDPBSUD,
  TDPBUSD,
  TDPBUUD,
  TDPBF16PS,
  TDPFP16PS,
  KINDS
};

// How often each kind has run, in the order of `Kind`.
uint64_t amx_counts[KINDS];

// How many tiles were loaded of which two rows start in one of the 64 sets of L1.
uint64_t amx_crowded;

// 64 bytes, as LDTILECFG reads them.
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} Config;

typedef union {
  uint8_t u8[ROWS][ROW_BYTES];
  int8_t i8[ROWS][ROW_BYTES];
  uint16_t u16[ROWS][ROW_BYTES / 2];
  int32_t i32[ROWS][ROW_BYTES / 4];
  float f32[ROWS][ROW_BYTES / 4];
} Tile;

// A thread has its own, as it has its own registers.
static _Thread_local Config config;
static _Thread_local Tile tiles[TILES];

static void fault(const char *what) {
  static const char head[] = "AMX emulator: ";
  if (write(2, head, sizeof head - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
    _exit(87);
  _exit(86);
}

static void require(int condition, const char *what) {
  if (!condition)
    fault(what);
}

// ---- The instruction's bytes

typedef struct {
  const uint8_t *next;
  unsigned opcode, prefix, vvvv, reg, rm, mod;
  unsigned index_high, base_high;
} Instruction;

static Instruction decode(const uint8_t *at) {
  require(at[0] == 0xC4, "illegal instruction that is not AMX");
  Instruction i = {.opcode = at[3], .prefix = at[2] & 3, .vvvv = ~(at[2] >> 3) & 15, .next = at + 5};
  require((at[1] & 31) == 2 && !(at[2] & 0x84), "VEX instruction that is not AMX");
  i.mod = at[4] >> 6;
  i.reg = (at[4] >> 3 & 7) | (at[1] & 0x80 ? 0 : 8);
  i.rm = at[4] & 7;
  i.index_high = at[1] & 0x40 ? 0 : 8;
  i.base_high = at[1] & 0x20 ? 0 : 8;
  return i;
}

static uint64_t register_value(const ucontext_t *context, unsigned number) {
  static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return (uint64_t)context->uc_mcontext.gregs[order[number]];
}

typedef struct {
  uint8_t *start;
  int64_t stride;
} Memory;

// The address of a memory operand, and the value of its index register, which is the stride between rows of a tile.
static Memory memory_operand(Instruction *i, const ucontext_t *context) {
  Memory memory = {0, 0};
  uint64_t address = 0;
  int absolute = i->mod == 0 && i->rm == 5, no_base = 0;
  if (i->rm == 4) {
    unsigned sib = *i->next++, index = (sib >> 3 & 7) | i->index_high, base = sib & 7;
    if (index != 4)
      memory.stride = (int64_t)(register_value(context, index) << (sib >> 6));
    no_base = base == 5 && i->mod == 0;
    if (!no_base)
      address = register_value(context, base | i->base_high);
  } else if (!absolute) {
    address = register_value(context, i->rm | i->base_high);
  }
  int32_t displacement = 0;
  if (i->mod == 1) {
    displacement = (int8_t)*i->next++;
  } else if (i->mod == 2 || absolute || no_base) {
    memcpy(&displacement, i->next, 4);
    i->next += 4;
  }
  if (absolute)
    address = (uint64_t)i->next;
  memory.start = (uint8_t *)(address + (int64_t)displacement);
  return memory;
}

// ---- Configuration

static void load_config(const uint8_t *from) {
  Config wanted;
  memcpy(&wanted, from, sizeof wanted);
  require(wanted.palette <= 1, "#GP: LDTILECFG of an unknown palette");
  for (unsigned n = 0; n < sizeof wanted.reserved; ++n)
    require(!wanted.reserved[n], "#GP: LDTILECFG with reserved bytes");
  for (int n = 0; n < 16 && wanted.palette; ++n) {
    require(n < TILES || (!wanted.rows[n] && !wanted.bytes[n]), "#GP: LDTILECFG of a ninth tile");
    require(wanted.rows[n] <= ROWS && wanted.bytes[n] <= ROW_BYTES, "#GP: LDTILECFG of a tile too large");
    require(!wanted.rows[n] == !wanted.bytes[n], "#GP: LDTILECFG of a tile with rows or columns only");
  }
  if (wanted.palette)
    config = wanted;
  else
    memset(&config, 0, sizeof config);
  memset(tiles, 0, sizeof tiles);
}

static void require_tile(unsigned number) {
  require(config.palette == 1, "#UD: no tiles are configured");
  require(number < TILES, "#UD: no such tile");
  require(config.rows[number] != 0, "#UD: the tile is not configured");
}

// ---- Moves

static void tile_load(unsigned number, Memory memory) {
  require_tile(number);
  for (int row = config.start_row; row < ROWS; ++row) {
    memset(tiles[number].u8[row], 0, ROW_BYTES);
    if (row < config.rows[number])
      memcpy(tiles[number].u8[row], memory.start + row * memory.stride, config.bytes[number]);
  }
  config.start_row = 0;
  uint64_t sets = 0;
  for (int row = 0; row < config.rows[number]; ++row)
    sets |= 1ull << ((uintptr_t)(memory.start + row * memory.stride) >> 6 & 63);
  if (__builtin_popcountll(sets) < config.rows[number])
    __atomic_fetch_add(&amx_crowded, 1, __ATOMIC_RELAXED);
}

static void tile_store(unsigned number, Memory memory) {
  require_tile(number);
  for (int row = config.start_row; row < config.rows[number]; ++row)
    memcpy(memory.start + row * memory.stride, tiles[number].u8[row], config.bytes[number]);
  config.start_row = 0;
}

// ---- Products

static float from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

__attribute__((target("f16c"))) static float from_f16(uint16_t bits) { return _cvtsh_ss(bits); }

// Denormal results and operands are zeros, as the control register says that the caller of these set.
__attribute__((target("fma"))) static float multiply_add(float a, float b, float sum) {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(sum)));
}

__attribute__((noinline)) static void dot_row_floats(Tile *c, const Tile *a, const Tile *b, int row, int groups,
                                                     int columns, int halves) {
  float sums[ROW_BYTES / 4][2] = {{0}};
  for (int k = 0; k < groups; ++k)
    for (int n = 0; n < columns; ++n)
      for (int i = 0; i < 2; ++i) {
        uint16_t x = a->u16[row][2 * k + i], y = b->u16[k][2 * n + i];
        sums[n][i] = halves ? multiply_add(from_f16(x), from_f16(y), sums[n][i])
                            : multiply_add(from_bf16(x), from_bf16(y), sums[n][i]);
      }
  for (int n = 0; n < columns; ++n)
    c->f32[row][n] += sums[n][0] + sums[n][1];
}

__attribute__((noinline)) static void dot_row_bytes(Tile *c, const Tile *a, const Tile *b, int row, int groups,
                                                    int columns, enum Kind kind) {
  int a_signed = kind == TDPBSSD || kind == TDPBSUD, b_signed = kind == TDPBSSD || kind == TDPBUSD;
  for (int k = 0; k < groups; ++k)
    for (int n = 0; n < columns; ++n)
      for (int i = 0; i < 4; ++i) {
        int x = a_signed ? a->i8[row][4 * k + i] : a->u8[row][4 * k + i];
        int y = b_signed ? b->i8[k][4 * n + i] : b->u8[k][4 * n + i];
        c->i32[row][n] = (int32_t)((uint32_t)c->i32[row][n] + (uint32_t)(x * y));
      }
}

static void dot(enum Kind kind, unsigned c, unsigned a, unsigned b) {
  require_tile(c);
  require_tile(a);
  require_tile(b);
  require(c != a && a != b && b != c, "#UD: a product needs three different tiles");
  require(!(config.bytes[c] % 4) && !(config.bytes[a] % 4) && !(config.bytes[b] % 4), "#UD: a row of part of a sum");
  require(config.rows[c] == config.rows[a], "#UD: A and the sums differ in rows");
  require(config.bytes[c] == config.bytes[b], "#UD: B and the sums differ in columns");
  require(config.bytes[a] / 4 == config.rows[b], "#UD: A and B differ in k");
  int groups = config.rows[b], columns = config.bytes[c] / 4;
  unsigned control = _mm_getcsr();
  _mm_setcsr(0x9FC0); // Denormals are zeros, both ways; rounds to nearest even; no exceptions.
  for (int row = 0; row < config.rows[c]; ++row) {
    if (kind == TDPBF16PS || kind == TDPFP16PS)
      dot_row_floats(&tiles[c], &tiles[a], &tiles[b], row, groups, columns, kind == TDPFP16PS);
    else
      dot_row_bytes(&tiles[c], &tiles[a], &tiles[b], row, groups, columns, kind);
  }
  _mm_setcsr(control);
  config.start_row = 0;
}

// ---- One instruction

enum { NONE, P66, PF3, PF2 }; // VEX.pp

static enum Kind run(Instruction *i, const ucontext_t *context) {
  static const enum Kind loads[] = {[P66] = TILELOADDT1, [PF2] = TILELOADD};
  static const enum Kind bytes[] = {[NONE] = TDPBUUD, [P66] = TDPBUSD, [PF3] = TDPBSUD, [PF2] = TDPBSSD};
  int in_memory = i->mod != 3;
  if (i->opcode == 0x49 && i->prefix == NONE && in_memory) {
    load_config(memory_operand(i, context).start);
    return LDTILECFG;
  }
  if (i->opcode == 0x49 && i->prefix == P66 && in_memory) {
    memcpy(memory_operand(i, context).start, &config, sizeof config);
    return STTILECFG;
  }
  if (i->opcode == 0x49 && i->prefix == NONE && i->rm == 0 && i->reg == 0) {
    memset(&config, 0, sizeof config);
    memset(tiles, 0, sizeof tiles);
    return TILERELEASE;
  }
  if (i->opcode == 0x49 && i->prefix == PF2 && !in_memory && i->rm == 0) {
    require_tile(i->reg);
    memset(&tiles[i->reg], 0, sizeof tiles[i->reg]);
    config.start_row = 0;
    return TILEZERO;
  }
  if (i->opcode == 0x4B && in_memory && i->rm == 4 && i->prefix == PF3) {
    tile_store(i->reg, memory_operand(i, context));
    return TILESTORED;
  }
  if (i->opcode == 0x4B && in_memory && i->rm == 4 && i->prefix != NONE) {
    tile_load(i->reg, memory_operand(i, context));
    return loads[i->prefix];
  }
  if (i->opcode == 0x5E && !in_memory) {
    dot(bytes[i->prefix], i->reg, i->rm | i->base_high, i->vvvv);
    return bytes[i->prefix];
  }
  if (i->opcode == 0x5C && !in_memory && i->prefix >= PF3) {
    enum Kind kind = i->prefix == PF3 ? TDPBF16PS : TDPFP16PS;
    dot(kind, i->reg, i->rm | i->base_high, i->vvvv);
    return kind;
  }
  fault("VEX instruction that is not AMX");
  return KINDS;
}

static void on_illegal_instruction(int number, siginfo_t *info, void *opaque) {
  ucontext_t *context = opaque;
  (void)number;
  (void)info;
  Instruction instruction = decode((const uint8_t *)context->uc_mcontext.gregs[REG_RIP]);
  __atomic_fetch_add(&amx_counts[run(&instruction, context)], 1, __ATOMIC_RELAXED);
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)instruction.next;
}

// Starts to emulate, in the whole process. Returns 0, or -1 when the signal cannot be caught.
int amx_emulate(void) {
  struct sigaction action = {.sa_sigaction = on_illegal_instruction, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  return sigaction(SIGILL, &action, 0);
}
