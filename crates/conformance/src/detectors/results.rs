//! What a call has left.

use frazil_core::{ErrorWord, TensorId};

/// Where an engine leaves what its calls are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsIn {
    /// In its outputs, O among them; the workspace is scratch but for the error word.
    Outputs,
    /// In every region of the workspace: of an engine that runs what comes before the kernels of others.
    Workspace,
}

/// The bytes that one call has written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Results {
    /// All bytes of every output.
    pub outputs: Vec<(TensorId, Vec<u8>)>,
    /// All bytes of every region of the workspace, by name, where they are results.
    pub regions: Vec<(&'static str, Vec<u8>)>,
    /// The error word, of plans that have one.
    pub error_word: Option<ErrorWord>,
}

impl Results {
    /// The bytes of a region of the workspace.
    pub fn region(&self, name: &str) -> Option<&[u8]> {
        self.regions.iter().find(|(region, _)| *region == name).map(|(_, bytes)| &**bytes)
    }

    /// The first place at which two results of one plan differ.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self.error_word != other.error_word {
            return Some(format!("error word {:?} and {:?}", self.error_word, other.error_word));
        }
        let outputs = self.outputs.iter().zip(&other.outputs);
        let outputs = outputs.map(|((id, a), (_, b))| (format!("tensor {id}"), a, b));
        let regions = self.regions.iter().zip(&other.regions);
        let regions = regions.map(|((name, a), (_, b))| (format!("region {name}"), a, b));
        outputs.chain(regions).find_map(|(name, a, b)| {
            let at = first_difference(a, b)?;
            Some(format!("{name}, byte {at}: {:#04x} and {:#04x}", a[at], b[at]))
        })
    }
}

/// The first index at which two slices of one length differ.
pub(super) fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}
