//! The machine code of kernels, judged without a GPU.
//!
//! A kernel that spills in its inner loop, or whose loop grew, is slower on every GPU, and a test of
//! results says nothing of it. Here every config that engines offer for some named cases is compiled
//! ([`kernels`]), disassembled ([`nvdisasm`]), its loops found ([`function`]), measured ([`measure`])
//! and held to a gate and to a snapshot ([`gate`]). `cargo xtask sass` prints the table.

#![forbid(unsafe_code)]

pub mod allowance;
pub mod function;
pub mod gate;
pub mod kernels;
pub mod loops;
pub mod measure;
pub mod nvdisasm;
pub mod table;
