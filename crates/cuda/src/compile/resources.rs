//! What `ptxas -v` says of a kernel.

use frazil_core::Resources;

/// Reads the log of a cubin for one kernel; `None` where it does not say.
///
/// A kernel's section begins with `Compiling entry function 'frazil_x' for 'sm_90a'`. In it come
/// `Function properties for NAME` with `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill
/// loads` on the next line, for the kernel and for every function that was not inlined, and
/// `Used 24 registers, …, 512 bytes smem`. Spills are added up over its functions.
pub(super) fn resources(log: &str, symbol: &str) -> Option<Resources> {
    const SECTION: &str = "Compiling entry function ";
    let begin = format!("{SECTION}'{symbol}'");
    let mut lines = log.lines().skip_while(|line| !line.contains(&begin));
    lines.next()?;
    let mut resources = Resources::default();
    let (mut registers, mut stack) = (None, None);
    let mut function = "";
    for line in lines.take_while(|line| !line.contains(SECTION)) {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim();
        } else if let Some(bytes) = before(line, " bytes stack frame") {
            resources.spill_store_bytes += before(line, " bytes spill stores")?;
            resources.spill_load_bytes += before(line, " bytes spill loads")?;
            if function == symbol {
                stack = Some(bytes);
            }
        } else if let Some(count) = before(line, " registers") {
            registers = Some(count);
            resources.static_smem_bytes = before(line, " bytes smem").unwrap_or(0);
        }
    }
    Some(Resources { registers: registers?, stack_bytes: stack?, ..resources })
}

/// The number in front of a text.
fn before(line: &str, text: &str) -> Option<u32> {
    let (head, _) = line.split_once(text)?;
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 13.5 writes it; 12.2 leaves out barriers, compile times and sizes of stacks.
    const LOG: &str = "\
common/x.cu(3): warning #177-D: variable \"used 9 registers\" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'frazil_other' for 'sm_100a'
ptxas info    : Function properties for frazil_other
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 3.160 ms
ptxas info    : Compiling entry function 'frazil_x' for 'sm_100a'
ptxas info    : Function properties for frazil_x
ptxas         .     256 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 22 registers, used 1 barriers, 256 bytes cumulative stack size, 512 bytes smem, 364 bytes cmem[0]
ptxas info    : Function properties for _Z1ffi
ptxas         .     64 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads";

    #[test]
    fn the_section_of_a_kernel_is_read() {
        let expected = Resources {
            registers: 22,
            stack_bytes: 256,
            spill_store_bytes: 12,
            spill_load_bytes: 16,
            static_smem_bytes: 512,
        };
        assert_eq!(resources(LOG, "frazil_x"), Some(expected));
        let other = Resources { registers: 8, ..Resources::default() };
        assert_eq!(resources(LOG, "frazil_other"), Some(other));
    }

    #[test]
    fn a_log_that_does_not_say_gives_nothing() {
        assert_eq!(resources(LOG, "frazil"), None);
        assert_eq!(resources("", "frazil_x"), None);
        for missing in ["Used 22", "256 bytes stack"] {
            let lines: Vec<&str> = LOG.lines().filter(|line| !line.contains(missing)).collect();
            assert_eq!(resources(&lines.join("\n"), "frazil_x"), None, "{missing}");
        }
    }
}
