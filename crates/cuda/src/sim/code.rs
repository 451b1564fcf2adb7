//! The codes that the simulated driver answers with: `CUresult` of `cuda.h`.

/// A `CUresult` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) i32);

/// What the parts of the simulated driver answer; the call's name is put to it in one place.
pub(super) type Outcome<T> = Result<T, Code>;

impl Code {
    pub(super) const INVALID_VALUE: Self = Self(1);
    pub(super) const OUT_OF_MEMORY: Self = Self(2);
    pub(super) const INVALID_DEVICE: Self = Self(101);
    pub(super) const INVALID_IMAGE: Self = Self(200);
    pub(super) const INVALID_CONTEXT: Self = Self(201);
    pub(super) const NO_BINARY_FOR_GPU: Self = Self(209);
    pub(super) const INVALID_PTX: Self = Self(218);
    pub(super) const INVALID_HANDLE: Self = Self(400);
    pub(super) const ILLEGAL_STATE: Self = Self(401);
    pub(super) const NOT_FOUND: Self = Self(500);
    pub(super) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(super) const LAUNCH_TIMEOUT: Self = Self(702);
    pub(super) const ASSERT: Self = Self(710);
    pub(super) const MISALIGNED_ADDRESS: Self = Self(716);
    pub(super) const LAUNCH_FAILED: Self = Self(719);
    pub(super) const NOT_SUPPORTED: Self = Self(801);
    pub(super) const CAPTURE_UNSUPPORTED: Self = Self(900);
    pub(super) const CAPTURE_INVALIDATED: Self = Self(901);
    pub(super) const CAPTURE_IMPLICIT: Self = Self(906);
    pub(super) const CAPTURED_EVENT: Self = Self(907);
    pub(super) const CAPTURE_WRONG_THREAD: Self = Self(908);
    pub(super) const INVALID_CLUSTER_SIZE: Self = Self(912);
}
