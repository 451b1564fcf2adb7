//! Takes names that the driver lacks out of this library's symbol table.
//!
//! A caller that probes for a function, to do without it on an older driver, must get the driver's
//! answer. The loader passes by a symbol whose value is 0, as one of another library's.

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::{io, ptr};

/// The kind of answer wanted of `dladdr1`: an `Elf64_Sym` (`dlfcn.h`).
const RTLD_DL_SYMENT: c_int = 1;

/// Makes `dlsym` answer that there is no `name`, the function of this library at `address`.
pub(crate) fn hide(name: &CStr, address: *const c_void) -> Result<(), String> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let mut entry: *mut c_void = ptr::null_mut();
    // SAFETY: both places to write to are ours and of the types that this request writes.
    let found = unsafe { libc::dladdr1(address, &raw mut info, &raw mut entry, RTLD_DL_SYMENT) };
    let entry = entry.cast::<libc::Elf64_Sym>();
    if found == 0 || entry.is_null() || info.dli_sname.is_null() {
        return Err("is not in the symbol table".into());
    }
    // SAFETY: where it is not null, it is the name in the library's string table.
    let found = unsafe { CStr::from_ptr(info.dli_sname) };
    if found != name {
        return Err(format!("is at the address of {}", found.to_string_lossy()));
    }
    let value = entry.wrapping_byte_add(offset_of!(libc::Elf64_Sym, st_value)).cast::<u64>();
    // SAFETY: the entry found above lies in the symbol table of this library, which holds no code
    // and which nobody writes.
    unsafe { write_to_read_only(value, 0) }.map_err(|error| error.to_string())
}

/// Writes to memory of this library that is mapped for reading only, and leaves it so.
///
/// # Safety
///
/// `place` is such memory, and no thread writes there or runs code from its page meanwhile.
unsafe fn write_to_read_only(place: *mut u64, value: u64) -> io::Result<()> {
    // SAFETY: asking for a number of the system has no condition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).map_err(io::Error::other)?;
    let start = place.map_addr(|address| address & !(page - 1)).cast::<c_void>();
    // The value, aligned to its size, lies in one page.
    let protect = |protection| {
        // SAFETY: of the caller: the page is this library's own and only read.
        let code = unsafe { libc::mprotect(start, page, protection) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: of the caller, and the page may be written now.
    unsafe { place.write(value) };
    protect(libc::PROT_READ)
}
