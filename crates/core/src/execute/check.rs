//! From bindings to a [`Call`]. Allocates only to describe a refusal.

use super::overlap::may_share;
use super::{Call, Executable, View};
use crate::bindings::Binding;
use crate::facts::{Facts, Port, Ports, SdpaFwdFacts, SideFacts};
use crate::graph::{TensorRef, Tensors, check_sdpa_fwd};
use crate::{
    BindingError, Bindings, DeviceId, Error, Geometry, InvalidGraph, MAX_BINDINGS, OverrideRules,
    Role, Stream, StrideRule, TensorId, WORKSPACE_ALIGN, Workspace, WorkspaceError,
};

/// `views` is where the call's tensors are written, so that nothing of their size is moved.
pub(super) fn checked<'a>(
    executable: &'a Executable,
    bindings: &Bindings<'_>,
    workspace: &Workspace<'_>,
    stream: Stream,
    views: &'a mut [Option<View>; MAX_BINDINGS],
) -> Result<Call<'a>, Error> {
    let device = executable.device.id();
    let facts = executable.plan.facts();
    let ports = facts.ports();
    check_stream(stream, device)?;
    for binding in bindings.iter() {
        if ports.position(binding.id).is_none() {
            return Err(BindingError::Unknown { id: binding.id }.into());
        }
    }
    let mut spans = [Span::default(); MAX_BINDINGS];
    let mut overridden = false;
    for ((port, view), span) in ports.iter().zip(&mut *views).zip(&mut spans) {
        let desc = port.desc();
        let binding = bindings
            .get(desc.id())
            .ok_or_else(|| BindingError::Missing { tensor: desc.name().into(), id: desc.id() })?;
        if let Some(geometry) = &binding.geometry {
            overridden = true;
            let rules = executable.plan.override_rules();
            check_override(port, geometry, rules)?;
            check_override_strides(ports, port, geometry, rules)?;
        }
        let (bound, bytes) = bound(port, binding, device)?;
        *span = Span { addr: bound.addr, bytes };
        *view = Some(bound);
    }
    if overridden {
        check_overrides_agree(facts, &Effective { ports, views })?;
    }
    check_workspace(workspace, executable.plan.workspace_bytes(), device)?;
    check_sharing(ports, (views, &spans), workspace)?;
    Ok(Call { ports, views, workspace: workspace.buffer.addr(), device, stream })
}

/// Addresses from the first element to the last, computed once a call: every pair is compared.
#[derive(Clone, Copy, Default)]
struct Span {
    addr: u64,
    bytes: u64,
}

impl Span {
    /// Whether both hold an address. Neither wraps around: bindings are checked for it.
    fn meets(self, other: Self) -> bool {
        let begins_before_the_end =
            self.addr < other.addr + other.bytes && other.addr < self.addr + self.bytes;
        begins_before_the_end && self.bytes > 0 && other.bytes > 0
    }
}

fn check_stream(stream: Stream, device: DeviceId) -> Result<(), BindingError> {
    let found = match (device, stream.raw()) {
        (DeviceId::Host, None) | (DeviceId::Cuda(_) | DeviceId::Simulated(_), Some(_)) => {
            return Ok(());
        }
        (DeviceId::Host, Some(_)) => "a GPU stream",
        (_, None) => "the host",
    };
    Err(BindingError::Stream { found, need: device })
}

/// One buffer against one port; the bytes that the tensor spans.
fn bound(
    port: &Port,
    binding: &Binding<'_>,
    device: DeviceId,
) -> Result<(View, u64), BindingError> {
    let desc = port.desc();
    let buffer = &binding.buffer;
    let tensor = || desc.name().to_owned();
    if buffer.device() != device {
        let (found, need) = (buffer.device(), device);
        return Err(BindingError::Device { tensor: tensor(), found, need });
    }
    if let Some(found) = buffer.dtype().filter(|&found| found != desc.dtype()) {
        return Err(BindingError::DType { tensor: tensor(), found, need: desc.dtype() });
    }
    if port.is_output() && !buffer.is_writable() {
        return Err(BindingError::ReadOnly { tensor: tensor() });
    }
    let (addr, bytes) = (buffer.addr(), buffer.bytes());
    let geometry = binding.geometry.unwrap_or(*desc.geometry());
    let need = geometry.span() * desc.dtype().bytes();
    if need > bytes {
        return Err(BindingError::TooShort { tensor: tensor(), geometry, found: bytes, need });
    }
    if bytes > 0 && (addr == 0 || addr.checked_add(bytes).is_none()) {
        return Err(BindingError::Address { tensor: tensor(), addr, bytes });
    }
    if need > 0 && addr % u64::from(desc.align()) != 0 {
        return Err(BindingError::Misaligned { tensor: tensor(), addr, need: desc.align() });
    }
    Ok((View { addr, geometry }, need))
}

/// One override against the declaration.
fn check_override(
    port: &Port,
    geometry: &Geometry,
    rules: Option<&OverrideRules>,
) -> Result<(), BindingError> {
    let desc = port.desc();
    let tensor = || desc.name().to_owned();
    if rules.is_none() {
        return Err(BindingError::OverridesNotTaken { tensor: tensor() });
    }
    let declared = desc.geometry();
    if geometry.rank() != declared.rank() {
        let (found, declared) = (geometry.rank(), declared.rank());
        return Err(BindingError::OverrideRank { tensor: tensor(), found, declared });
    }
    for axis in 0..geometry.rank() {
        let (found, declared) = (geometry.extent(axis), declared.extent(axis));
        if found > declared {
            let rule = "extents may shrink, never grow";
            return Err(BindingError::OverrideExtent {
                tensor: tensor(),
                axis,
                found,
                declared,
                rule,
            });
        }
    }
    if port.is_output() && geometry.may_overlap_itself() {
        return Err(BindingError::OverridesDisagree(InvalidGraph::OutputOverlapsItself {
            op: "execute",
            tensor: tensor(),
            geometry: *geometry,
        }));
    }
    Ok(())
}

/// One override against the strides that the plan takes for the roles that its tensor holds.
fn check_override_strides(
    ports: &Ports,
    port: &Port,
    geometry: &Geometry,
    rules: Option<&OverrideRules>,
) -> Result<(), BindingError> {
    let desc = port.desc();
    let last = geometry.rank() - 1;
    let holds = |role| ports.get(role).is_some_and(|holder| holder.desc().id() == desc.id());
    let rules = rules.into_iter().flat_map(|rules| &rules.0);
    for (_, StrideRule { unit_stride, multiple_bytes }) in rules.filter(|(role, _)| holds(*role)) {
        for axis in 0..geometry.rank() {
            let found = geometry.stride(axis);
            let bytes = found * desc.dtype().bytes();
            let rule = if axis == last && *unit_stride && found > 1 {
                "the last axis must have stride 1"
            } else if axis != last && !bytes.is_multiple_of(multiple_bytes.get().into()) {
                "its bytes are not a multiple of what the plan's rules state"
            } else {
                continue;
            };
            let tensor = desc.name().into();
            return Err(BindingError::OverrideStride { tensor, axis, found, rule });
        }
    }
    Ok(())
}

/// The graph's tensors with the geometry of this call.
struct Effective<'a> {
    ports: &'a Ports,
    views: &'a [Option<View>; MAX_BINDINGS],
}

impl Tensors for Effective<'_> {
    fn tensor(&self, id: TensorId) -> Option<TensorRef<'_>> {
        let at = self.ports.position(id)?;
        let desc = self.ports.at(at).desc();
        let geometry = self.views[at]?.geometry;
        Some(TensorRef { name: desc.name(), dtype: desc.dtype(), geometry })
    }
}

/// All tensors of the call against one another, and what was compiled in against the declaration.
fn check_overrides_agree(facts: &Facts, effective: &Effective<'_>) -> Result<(), BindingError> {
    let Facts::SdpaFwd(facts) = facts;
    check_sdpa_fwd(facts.op(), effective).map_err(BindingError::OverridesDisagree)?;
    for (role, axis) in fixed_axes(facts) {
        let Some(at) = effective.ports.index(role) else {
            continue;
        };
        let desc = effective.ports.at(at).desc();
        let declared = desc.geometry().extent(axis);
        let found = effective.views[at].map_or(declared, |view| view.geometry.extent(axis));
        if found != declared {
            return Err(BindingError::OverrideExtent {
                tensor: desc.name().into(),
                axis,
                found,
                declared,
                rule: "heads, head dims and page sizes stay as declared",
            });
        }
    }
    Ok(())
}

/// Axes that overrides must leave alone: heads and columns of Q, K and V (O follows), rows of a
/// page.
fn fixed_axes(facts: &SdpaFwdFacts) -> impl Iterator<Item = (Role, usize)> {
    let columns = |side: SideFacts| if side.is_packed() { 2 } else { 3 };
    let (q, kv) = (columns(facts.q_side()), columns(facts.kv_side()));
    let page = matches!(facts.kv_side(), SideFacts::Paged { .. }).then_some((Role::K, 2));
    [(Role::Q, 1), (Role::Q, q), (Role::K, 1), (Role::V, kv)].into_iter().chain(page)
}

fn check_workspace(
    workspace: &Workspace<'_>,
    need: u64,
    device: DeviceId,
) -> Result<(), WorkspaceError> {
    let buffer = &workspace.buffer;
    let (addr, bytes) = (buffer.addr(), buffer.bytes());
    if bytes < need {
        return Err(WorkspaceError::TooShort { found: bytes, need });
    }
    if buffer.device() != device {
        return Err(WorkspaceError::Device { found: buffer.device(), need: device });
    }
    if bytes > 0 && (addr == 0 || addr.checked_add(bytes).is_none()) {
        return Err(WorkspaceError::Address { addr, bytes });
    }
    if need == 0 {
        return Ok(());
    }
    if !addr.is_multiple_of(WORKSPACE_ALIGN) {
        return Err(WorkspaceError::Misaligned { addr, need: WORKSPACE_ALIGN });
    }
    if buffer.is_writable() { Ok(()) } else { Err(WorkspaceError::ReadOnly) }
}

/// The workspace overlaps nothing; an output shares no address with any other tensor.
fn check_sharing(
    ports: &Ports,
    (views, spans): (&[Option<View>; MAX_BINDINGS], &[Span; MAX_BINDINGS]),
    workspace: &Workspace<'_>,
) -> Result<(), Error> {
    let scratch = Span { addr: workspace.buffer.addr(), bytes: workspace.buffer.bytes() };
    for (at, (port, span)) in ports.iter().zip(spans).enumerate() {
        if span.meets(scratch) {
            return Err(WorkspaceError::Overlap { tensor: port.desc().name().into() }.into());
        }
        if !port.is_output() {
            continue;
        }
        for (other_at, (other, other_span)) in ports.iter().zip(spans).enumerate() {
            // Nearly every pair ends here: axes are looked at for those that do not.
            if other_at == at || !span.meets(*other_span) {
                continue;
            }
            let (Some(view), Some(other_view)) = (&views[at], &views[other_at]) else {
                continue;
            };
            let element = |port: &Port| port.desc().dtype().bytes();
            if may_share((view, element(port)), (other_view, element(other))) {
                let (tensor, other) = (port.desc().name().into(), other.desc().name().into());
                return Err(BindingError::Overlap { tensor, other }.into());
            }
        }
    }
    Ok(())
}
