//! Memory and pointers.

use std::sync::Arc;

use frazil_cuda::{Driver, DriverCalls, MemoryInfo};

use super::{Differences, call, code};

/// `cuMemAlloc`, `cuMemFree`, copies and fills.
pub(crate) fn memory(driver: &Arc<Driver>) {
    let mut differences = Differences::default();
    let stream = driver.stream_create().unwrap();
    differences.compare("an allocation of nothing", code(driver.mem_alloc(0)), 1);
    differences.compare("an allocation of 2^60 bytes", code(driver.mem_alloc(1 << 60)), 2);

    let [small, large] = [100, 100_000].map(|bytes| driver.mem_alloc(bytes).unwrap());
    for address in [small, large] {
        differences.compare("alignment", address % 256, 0);
    }
    differences.compare("they are apart", small.abs_diff(large) >= 100, true);

    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for sentinel in [0, 1, 2, stream] {
        let mut back = vec![0; bytes.len()];
        call!(driver, memset_d8_async(large, 0x5a, 100_000, sentinel)).unwrap();
        call!(driver, copy_to_device(large + 1, &bytes[..99_998], sentinel)).unwrap();
        call!(driver, copy_to_host(&mut back, large, sentinel)).unwrap();
        let whole = back[0] == 0x5a && back[99_999] == 0x5a && back[1..99_999] == bytes[..99_998];
        differences.compare(&format!("bytes through stream {sentinel:#x}"), whole, true);
    }

    differences.compare(
        "a fill of nothing",
        code(call!(driver, memset_d8_async(small, 0, 0, stream))),
        0,
    );
    differences.compare(
        "a copy of nothing",
        code(call!(driver, copy_to_device(small, &[], stream))),
        0,
    );
    let nowhere = 0x10;
    let fill = call!(driver, memset_d8_async(nowhere, 0, 16, stream));
    differences.compare("a fill of what is not allocated", code(fill), 1);
    let copy = call!(driver, copy_to_device(nowhere, &[0; 16], stream));
    differences.compare("a copy to what is not allocated", code(copy), 1);
    let free = call!(driver, mem_free(small + 16));
    differences.compare("a free of a middle", code(free), 1);
    differences.compare("a free", code(call!(driver, mem_free(small))), 0);
    differences.compare("the other", code(call!(driver, mem_free(large))), 0);
    call!(driver, stream_destroy(stream)).unwrap();
    differences.assert_none();
}

/// `cuPointerGetAttributes`.
pub(crate) fn pointers(driver: &Arc<Driver>) {
    let base = driver.mem_alloc(1000).unwrap();
    let info = Some(MemoryInfo { ordinal: Some(0), base, bytes: 1000 });
    for offset in [0, 1, 999] {
        assert_eq!(driver.pointer_get_attributes(base + offset).unwrap(), info, "{offset}");
    }
    let of_host = [0_u8; 16];
    let host = of_host.as_ptr().addr() as u64;
    assert_eq!(driver.pointer_get_attributes(host).unwrap(), None, "pageable memory of the host");
    call!(driver, mem_free(base)).unwrap();
    assert_eq!(driver.pointer_get_attributes(base).unwrap(), None, "memory that was freed");
}
