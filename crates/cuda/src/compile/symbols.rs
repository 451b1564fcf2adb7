//! Names of the kernels in an image.

use object::Endianness;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSymbol as _};

use crate::ImageKind;

/// Mark of a kernel among the functions of a cubin, in `st_other` (`STO_CUDA_ENTRY` of the CUDA ELF
/// ABI, which `cuobjdump -elf` prints).
const STO_CUDA_ENTRY: u8 = 0x10;

/// What every kernel of frazil is called, so that a profile, a trace and a graph show whose it is.
const PREFIX: &str = "frazil_";

/// Names of the kernels in an image, in its order.
///
/// # Errors
///
/// What is wrong: the image is not what its kind says, a kernel is not named as frazil's are, or the
/// one that was asked for is not there.
pub(super) fn checked(image: &[u8], kind: ImageKind, wanted: &str) -> Result<Vec<String>, String> {
    let symbols = match kind {
        ImageKind::Cubin => of_cubin(image)?,
        ImageKind::Ptx => of_ptx(image)?,
    };
    if let Some(foreign) = symbols.iter().find(|symbol| !symbol.starts_with(PREFIX)) {
        return Err(format!("kernel `{foreign}`: its name does not begin with `{PREFIX}`"));
    }
    if symbols.iter().any(|symbol| symbol == wanted) {
        Ok(symbols)
    } else {
        Err(format!("no kernel `{wanted}` in the image, but {symbols:?}"))
    }
}

fn of_cubin(image: &[u8]) -> Result<Vec<String>, String> {
    let not_elf = |error: object::Error| format!("the image is no cubin: {error}");
    let file = ElfFile64::<Endianness>::parse(image).map_err(not_elf)?;
    let mut symbols = Vec::new();
    for symbol in file.symbols() {
        if symbol.elf_symbol().st_other.0 & STO_CUDA_ENTRY != 0
            && symbol.kind() == object::SymbolKind::Text
        {
            symbols.push(symbol.name().map_err(not_elf)?.to_owned());
        }
    }
    Ok(symbols)
}

/// Names after `.entry`: `.visible .entry frazil_x(` (PTX ISA, "Kernel and Function Directives").
fn of_ptx(image: &[u8]) -> Result<Vec<String>, String> {
    let text = str::from_utf8(image).map_err(|error| format!("the image is no PTX: {error}"))?;
    let name = |line: &str| {
        let (before, name) = line.split_once(".entry ")?;
        let is_directive = before.split_whitespace().all(|word| word.starts_with('.'));
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)));
        is_directive.then(|| name[..end.unwrap_or(name.len())].to_owned())
    };
    Ok(text.lines().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 9.5
// .entry frazil_comment(
.visible .entry frazil_x(
\t.param .u64 frazil_x_param_0
)
.entry frazil_y()
";

    #[test]
    fn kernels_of_ptx_are_named() {
        let symbols = checked(PTX.as_bytes(), ImageKind::Ptx, "frazil_y");
        assert_eq!(symbols.unwrap(), ["frazil_x", "frazil_y"]);
    }

    #[test]
    fn a_kernel_of_another_name_is_refused() {
        let renamed = PTX.replace("entry frazil_x", "entry x");
        let error = checked(renamed.as_bytes(), ImageKind::Ptx, "frazil_y").unwrap_err();
        assert!(error.contains("`x`"), "{error}");
        let error = checked(PTX.as_bytes(), ImageKind::Ptx, "frazil_z").unwrap_err();
        assert!(error.contains("`frazil_z`"), "{error}");
    }

    #[test]
    fn an_image_that_is_none_is_refused() {
        for image in [&b""[..], b"\x7fELF", &[0xff; 64]] {
            for kind in [ImageKind::Cubin, ImageKind::Ptx] {
                assert!(checked(image, kind, "frazil_x").is_err());
            }
        }
    }
}
