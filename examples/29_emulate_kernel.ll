; A kernel that is not ours: each of 64 threads puts a number into shared memory, and reads that of its neighbor. Without the barrier
; it would be a race, which the emulator reports:
;
;   tilewright emulate examples/29_emulate_kernel.ll --block 64 --arg f32[64] --arg out:f32[64]

target triple = "nvptx64-nvidia-cuda"

@tile = internal addrspace(3) global [64 x float] poison, align 16

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()

define ptx_kernel void @neighbor(ptr %in, ptr %out) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr %in, i32 %thread
  %value = load float, ptr %from, align 4
  %place = getelementptr float, ptr addrspace(3) @tile, i32 %thread
  store float %value, ptr addrspace(3) %place, align 4
  call void @llvm.nvvm.barrier0()
  %after = add i32 %thread, 1
  %next = and i32 %after, 63
  %other = getelementptr float, ptr addrspace(3) @tile, i32 %next
  %seen = load float, ptr addrspace(3) %other, align 4
  %to = getelementptr float, ptr %out, i32 %thread
  store float %seen, ptr %to, align 4
  ret void
}
