//! Breaches of the rules, and who finds them.

use super::Detector;

/// One breach of one rule, by which a detector is seen to find something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Violation {
    /// Build allocates device memory.
    AllocationAtBuild,
    /// Execute allocates device memory, and frees it.
    DeviceAllocation,
    /// Execute allocates on the host.
    HostAllocation,
    /// Execute fills memory before it launches.
    Memset,
    /// Execute waits for the caller's stream.
    StreamSynchronize,
    /// Execute waits for the whole context.
    ContextSynchronize,
    /// Execute reads a length on the host and hands it to a kernel as a number, which goes wrong where
    /// the length is another one by then.
    HostRead,
    /// A kernel that the plan did not promise.
    UnpromisedKernel,
    /// A kernel that the plan promised is not launched.
    MissingKernel,
    /// Execute launches on a stream of its own.
    OwnStream,
    /// Execute launches on the legacy stream.
    LegacyStream,
    /// Execute leaves the device's context current.
    ContextLeftPushed,
    /// Dropping the executable unloads a module.
    UnloadInDrop,
    /// Addresses of the first call serve all later ones.
    FirstCallsAddress,
    /// One call of many gives another result.
    OneCallOfMany,
    /// A result depends on what the workspace held before.
    SurvivingContent,
    /// A kernel writes behind the end of the workspace.
    PastTheWorkspace,
}

impl Violation {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::AllocationAtBuild,
        Self::DeviceAllocation,
        Self::HostAllocation,
        Self::Memset,
        Self::StreamSynchronize,
        Self::ContextSynchronize,
        Self::HostRead,
        Self::UnpromisedKernel,
        Self::MissingKernel,
        Self::OwnStream,
        Self::LegacyStream,
        Self::ContextLeftPushed,
        Self::UnloadInDrop,
        Self::FirstCallsAddress,
        Self::OneCallOfMany,
        Self::SurvivingContent,
        Self::PastTheWorkspace,
    ];

    /// Whether a detector finds it; the others find nothing.
    pub fn is_found_by(self, detector: Detector) -> bool {
        self.finders().contains(&detector)
    }

    fn finders(self) -> &'static [Detector] {
        use Detector::{
            Capture, Context, DriverCalls, Guards, HostAllocations, Launches, Poison, Repeats,
            Replay, Streams, Threads,
        };
        match self {
            Self::AllocationAtBuild => &[Capture],
            Self::DeviceAllocation => &[Capture, DriverCalls],
            Self::HostAllocation => &[HostAllocations],
            Self::Memset | Self::UnpromisedKernel => &[Launches, DriverCalls],
            // A wait for a stream that captures breaks captures of every mode.
            Self::StreamSynchronize | Self::ContextSynchronize => {
                &[Capture, Detector::Drop, Launches, Streams, Replay, DriverCalls]
            }
            Self::HostRead => &[Capture, Replay, DriverCalls],
            // Nothing comes of the call, whoever looks.
            Self::MissingKernel => &[
                Capture,
                Detector::Drop,
                Launches,
                DriverCalls,
                Streams,
                Replay,
                Threads,
                Repeats,
                Poison,
            ],
            Self::OwnStream | Self::LegacyStream => &[Streams, DriverCalls],
            Self::ContextLeftPushed => &[Context, DriverCalls],
            Self::UnloadInDrop => &[Detector::Drop],
            Self::FirstCallsAddress => &[Threads],
            Self::OneCallOfMany => &[Repeats],
            Self::SurvivingContent => &[Poison],
            Self::PastTheWorkspace => &[Guards],
        }
    }

    /// Whether the plan promises a kernel for it, so that the launch itself is none.
    pub(super) fn is_promised(self) -> bool {
        matches!(
            self,
            Self::HostRead
                | Self::FirstCallsAddress
                | Self::OneCallOfMany
                | Self::SurvivingContent
                | Self::PastTheWorkspace
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_found_and_every_detector_finds_one() {
        for violation in Violation::ALL {
            assert!(Detector::ALL.iter().any(|&by| violation.is_found_by(by)), "{violation:?}");
        }
        for detector in Detector::ALL {
            let finds = Violation::ALL.iter().any(|violation| violation.is_found_by(detector));
            assert!(finds, "{detector:?}");
        }
    }
}
