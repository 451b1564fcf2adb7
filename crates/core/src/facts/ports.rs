//! The tensors an operation reads and writes, and what each is for.

use super::Role;
use crate::{TensorDesc, TensorId};

/// A tensor to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    desc: TensorDesc,
    output: bool,
}

impl Port {
    /// The tensor.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Whether the operation writes it.
    pub fn is_output(&self) -> bool {
        self.output
    }
}

/// All tensors to bind, each once, and the roles they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    ports: Vec<Port>,
    by_role: [Option<u8>; Role::COUNT],
}

impl Ports {
    pub(crate) fn empty() -> Self {
        Self { ports: Vec::new(), by_role: [None; Role::COUNT] }
    }

    /// Gives a tensor a role; the tensor is added when it has none yet.
    pub(crate) fn assign(&mut self, role: Role, desc: &TensorDesc) {
        let known = self.ports.iter().position(|port| port.desc.id() == desc.id());
        let at = known.unwrap_or_else(|| {
            self.ports.push(Port { desc: desc.clone(), output: role.is_output() });
            self.ports.len() - 1
        });
        // A graph holds at most MAX_BINDINGS tensors, so the index fits.
        self.by_role[role as usize] = u8::try_from(at).ok();
    }

    /// Every tensor to bind.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Port> {
        self.ports.iter()
    }

    /// The tensor that holds a role.
    pub fn get(&self, role: Role) -> Option<&Port> {
        self.index(role).map(|at| &self.ports[at])
    }

    /// Position of the tensor that holds a role.
    pub(crate) fn index(&self, role: Role) -> Option<usize> {
        self.by_role[role as usize].map(usize::from)
    }

    pub(crate) fn position(&self, id: TensorId) -> Option<usize> {
        self.ports.iter().position(|port| port.desc.id() == id)
    }

    pub(crate) fn at(&self, index: usize) -> &Port {
        &self.ports[index]
    }
}
