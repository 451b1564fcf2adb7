//! Handles of the driver. Copy, raw, never null.

use std::num::NonZeroU64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// A handle as the driver gives it; `None` for null.
            pub fn from_raw(handle: u64) -> Option<Self> {
                NonZeroU64::new(handle).map(Self)
            }

            /// The handle as the driver takes it.
            pub fn raw(self) -> u64 {
                self.0.get()
            }
        }
    )*};
}

handles! {
    /// A `CUcontext`.
    ContextHandle;
    /// A `CUmodule`.
    ModuleHandle;
    /// A `CUfunction`.
    FunctionHandle;
    /// A `CUevent`.
    EventHandle;
    /// A `CUgraph`.
    GraphHandle;
    /// A `CUgraphExec`.
    GraphExecHandle;
}
