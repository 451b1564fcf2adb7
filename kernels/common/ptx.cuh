#pragma once
// One function for each instruction that CUDA C++ has no name for. `asm` stands here, and in the
// instruction headers of one architecture, alone.
//
// Sections are those of the PTX ISA, https://docs.nvidia.com/cuda/parallel-thread-execution/.

namespace frazil {

// griddepcontrol.launch_dependents (section "Parallel Synchronization and Communication
// Instructions"; sm_90). Kernels queued behind this one with the attribute for programmatic
// serialization may start as soon as every block has executed it or has ended. It publishes
// nothing: they see what this kernel wrote only after a griddepcontrol.wait. Targets before sm_90
// do not have it, and there such kernels start when this one has ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace frazil
