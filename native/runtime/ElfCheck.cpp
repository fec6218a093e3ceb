// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ElfCheck.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "llvm/Object/ELFTypes.h"

using namespace llvm;

namespace {

using Elf = object::ELFFile<object::ELF64LE>;
using Section = object::ELF64LE::Shdr;

/// Bytes that a relocation of this type changes, where it is not four.
bool isEightBytes(uint16_t machine, uint32_t type) {
  switch (machine) {
  case ELF::EM_X86_64:
    return type == ELF::R_X86_64_64 || type == ELF::R_X86_64_PC64 || type == ELF::R_X86_64_GOTOFF64;
  case ELF::EM_AARCH64:
    return type == ELF::R_AARCH64_ABS64 || type == ELF::R_AARCH64_PREL64;
  default:
    return true;
  }
}

Error checkRelocations(const Elf &file, const Section &table, uint64_t symbols) {
  Expected<const Section *> changed = file.getSection(table.sh_info);
  if (!changed)
    return changed.takeError();
  Expected<Elf::Elf_Rela_Range> relocations = file.relas(table);
  if (!relocations)
    return relocations.takeError();
  uint64_t size = (*changed)->sh_size;
  for (const auto &relocation : *relocations) {
    uint64_t bytes = isEightBytes(file.getHeader().e_machine, relocation.getType(/*isMips64EL=*/false)) ? 8 : 4;
    if (size < bytes || relocation.r_offset > size - bytes)
      return createStringError("a relocation lies outside its section");
    if (relocation.getSymbol(/*isMips64EL=*/false) >= symbols)
      return createStringError("a relocation names no symbol");
  }
  return Error::success();
}

} // namespace

Error tilewright::runtime::checkElf(StringRef object) {
  if (!object.starts_with(StringRef(ELF::ElfMagic, 4)))
    return createStringError("no ELF file");
  Expected<Elf> file = Elf::create(object);
  if (!file)
    return file.takeError();
  const auto &header = file->getHeader();
  if (header.e_ident[ELF::EI_CLASS] != ELF::ELFCLASS64 || header.e_ident[ELF::EI_DATA] != ELF::ELFDATA2LSB ||
      header.e_type != ELF::ET_REL)
    return createStringError("no 64-bit little-endian relocatable ELF file");
  Expected<Elf::Elf_Shdr_Range> sections = file->sections();
  if (!sections)
    return sections.takeError();

  const Section *symbolTable = nullptr;
  for (const Section &section : *sections) {
    if (section.sh_type == ELF::SHT_SYMTAB)
      symbolTable = &section;
    if (section.sh_type == ELF::SHT_NOBITS && !(section.sh_flags & ELF::SHF_ALLOC))
      return createStringError("a section has neither contents nor memory");
  }
  if (!symbolTable)
    return createStringError("no symbol table");
  Expected<Elf::Elf_Sym_Range> symbols = file->symbols(symbolTable);
  if (!symbols)
    return symbols.takeError();
  for (const Section &section : *sections)
    if (section.sh_type == ELF::SHT_RELA)
      if (Error error = checkRelocations(*file, section, symbols->size()))
        return error;
  return Error::success();
}
