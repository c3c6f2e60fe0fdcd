#include "tests/cuda_on_cpu/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "tests/cuda_on_cpu/report.h"

#ifndef __x86_64__
#error "Fibers are switched by a few lines of x86-64 assembly."
#endif

// Saves what a call must keep (System V ABI, x86-64) on the stack that is left, its
// address in *save, and returns on the other stack.
extern "C" void TesseraSwitchStack(void** save, void* to);
asm(R"(
.text
.globl TesseraSwitchStack
.type TesseraSwitchStack, @function
TesseraSwitchStack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size TesseraSwitchStack, . - TesseraSwitchStack
)");

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kSavedRegisters = 6;

Fiber* left = nullptr;
Fiber* entered = nullptr;

}  // namespace

// As the harness, after which alone ThreadSanitizer's new thread then comes.
Fiber::Fiber(void (*entry)(void*), void* argument, size_t stack_bytes)
    : entry_(entry), argument_(argument), stack_bytes_(stack_bytes) {
  const AsTsanThread as_harness(HarnessTsanThread());
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Report("no memory for a fiber's stack");
  // An overflow ends in a page that cannot be touched.
  mprotect(memory, page, PROT_NONE);
  char* bottom = static_cast<char*>(memory) + page;
  stack_bottom_ = bottom;
  auto* top = reinterpret_cast<uintptr_t*>(bottom + stack_bytes);
  *--top = 0;  // where a caller's address would be: the stack is then aligned as after a call
  *--top = reinterpret_cast<uintptr_t>(&Fiber::Enter);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = 0;
  stack_pointer_ = top;
  tsan_thread_ = CreateTsanThread();
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  left = &from;
  entered = &to;
#ifdef TESSERA_CUDA_ON_CPU_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack_bottom_, to.stack_bytes_);
#endif
  SwitchTsanThread(to.tsan_thread_);
  TesseraSwitchStack(&from.stack_pointer_, to.stack_pointer_);
#ifdef TESSERA_CUDA_ON_CPU_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, &left->stack_bottom_, &left->stack_bytes_);
#endif
}

void Fiber::Enter() {
#ifdef TESSERA_CUDA_ON_CPU_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &left->stack_bottom_, &left->stack_bytes_);
#endif
  entered->entry_(entered->argument_);
}

}  // namespace tessera::cuda_on_cpu
