//! What happens when the library is loaded: its functions are connected to the driver's.

use std::ffi::c_void;
use std::io::Write;
use std::sync::OnceLock;

use crate::hide;
use crate::proc_address::replacement;
use crate::real::Driver;
use crate::trampoline::{CELLS, NAMES, TRAMPOLINES, not_found};

/// Run by the loader before whoever opened this library can call it.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// The driver that calls are passed on to; none before the library is loaded, and where none was
/// found.
pub(crate) fn driver() -> Option<&'static Driver> {
    DRIVER.get()
}

#[cfg_attr(test, expect(dead_code, reason = "tests have no driver behind them"))]
extern "C" fn at_load() {
    match Driver::find() {
        Ok(driver) => connect(DRIVER.get_or_init(|| driver)),
        Err(none) => report(&none.to_string()),
    }
}

fn connect(driver: &Driver) {
    for (at, name) in NAMES.into_iter().enumerate() {
        match driver.symbol(name) {
            Some(real) => CELLS[at].set_target(replacement(name).unwrap_or(real)),
            None => {
                CELLS[at].set_target(not_found as *mut c_void);
                if let Err(why) = hide::hide(name, TRAMPOLINES[at] as *const c_void) {
                    report(&format!("{}: {why}", name.to_string_lossy()));
                }
            }
        }
    }
}

/// A line for people; there is nobody else to tell while a library is loaded.
fn report(message: &str) {
    let _ = writeln!(std::io::stderr(), "counting driver: {message}");
}
