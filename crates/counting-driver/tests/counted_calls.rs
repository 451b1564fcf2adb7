//! The counting driver before a fake driver, each test in a process that has both.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::ffi::{c_int, c_void};

use common::{ProcAddress, Road, asked_for, exported, handed_out, with_fake_driver};

const ROADS: [Road; 2] = [Road::Exported, Road::HandedOut];

type Init = extern "C" fn(u32) -> c_int;

#[test]
fn integers_in_registers_and_on_the_stack_arrive() {
    type Launch = unsafe extern "C" fn(
        *mut [u64; 10],
        u32,
        u8,
        i64,
        u16,
        u32,
        u64,
        u32,
        *const c_void,
        *const c_void,
        u64,
    ) -> c_int;
    with_fake_driver("integers_in_registers_and_on_the_stack_arrive", |calls| {
        for road in ROADS {
            // SAFETY: the type of the fake function.
            let launch = unsafe { road.function::<Launch>("cuLaunchKernel") };
            let mut seen = [0; 10];
            let (stream, params) = (0x1000 as *const c_void, 0x2000 as *const c_void);
            let (code, made) = calls.during(|| {
                // SAFETY: ten numbers may be written.
                unsafe {
                    launch(&mut seen, u32::MAX, 255, -2, 4, 5, u64::MAX, 7, stream, params, 10)
                }
            });
            assert_eq!(code, 0);
            let minus_two = u64::MAX - 1;
            let expected = [0xffff_ffff, 255, minus_two, 4, 5, u64::MAX, 7, 0x1000, 0x2000, 10];
            assert_eq!(seen, expected, "{road:?}");
            made.assert_exactly(&[("cuLaunchKernel", 1)]);
        }
    });
}

#[test]
fn floats_in_registers_and_on_the_stack_arrive() {
    type Clamp = extern "C" fn(f32, f64, u64, f64, f32, f64, f64, u32, f64, f64, f64, f32) -> f64;
    with_fake_driver("floats_in_registers_and_on_the_stack_arrive", |calls| {
        for road in ROADS {
            // SAFETY: the type of the fake function.
            let clamp = unsafe { road.function::<Clamp>("cuTexRefSetMipmapLevelClamp") };
            let call = || clamp(1.0, 2.0, 75, 3.0, 4.0, 5.0, 6.0, 5, 7.0, 8.0, 9.0, 0.0);
            let (digits, made) = calls.during(call);
            assert_eq!(digits, 1_234_567_890.0 + 0.5 + 0.75, "{road:?}");
            made.assert_exactly(&[("cuTexRefSetMipmapLevelClamp", 1)]);
        }
    });
}

#[test]
fn results_by_value_come_back() {
    #[repr(C)]
    struct Pair(u64, f64);
    #[repr(C)]
    struct Large([u64; 6]);
    with_fake_driver("results_by_value_come_back", |calls| {
        type ReturnsPair = extern "C" fn(u64, f64) -> Pair;
        type ReturnsLarge = extern "C" fn(u64, u64) -> Large;
        // SAFETY: the type of the older version.
        let pair = unsafe { exported::<ReturnsPair>("cuMemGetInfo") }.unwrap();
        // SAFETY: asked for as it was in CUDA 2.0.
        let pair_asked_for = unsafe { handed_out::<ReturnsPair>("cuMemGetInfo", 2000) }.unwrap();
        // SAFETY: the type of the newer version.
        let large = unsafe { exported::<ReturnsLarge>("cuMemGetInfo_v2") }.unwrap();
        // SAFETY: asked for as it is today.
        let large_asked_for = unsafe { handed_out::<ReturnsLarge>("cuMemGetInfo", 12000) }.unwrap();
        let (_, made) = calls.during(|| {
            for pair in [pair, pair_asked_for] {
                let Pair(integer, float) = pair(1 << 63, 0.1);
                assert_eq!((integer, float), (1 << 63, 0.1));
            }
            for large in [large, large_asked_for] {
                assert_eq!(large(5, 100).0, [5, 105, 205, 305, 405, 505]);
            }
        });
        made.assert_exactly(&[("cuMemGetInfo", 4)]);
        assert_eq!(made.by_name()["cuMemGetInfo_v2"], 1, "by its symbol");
        assert_eq!(made.by_name()["cuMemGetInfo"], 3, "by its symbol, and as it was asked for");
    });
}

/// The caller of a variadic function says in `al` how many vector registers it uses.
#[test]
fn the_register_of_variadic_calls_arrives() {
    type Variadic = unsafe extern "C" fn(c_int, ...) -> c_int;
    with_fake_driver("the_register_of_variadic_calls_arrives", |_| {
        for road in ROADS {
            // SAFETY: the fake function takes anything.
            let function = unsafe { road.function::<Variadic>("cuProfilerStart") };
            // SAFETY: of the same.
            let none = unsafe { function(0) };
            // SAFETY: of the same.
            let three = unsafe { function(0, 1.0, 2.0, 3.0) };
            assert_eq!((none, three), (0, 3), "{road:?}");
        }
    });
}

#[test]
fn calls_of_two_threads_at_once_are_counted_exactly() {
    const CALLS: u32 = 200_000;
    with_fake_driver("calls_of_two_threads_at_once_are_counted_exactly", |calls| {
        // SAFETY: the type of the fake function.
        let [exported, handed_out] = ROADS.map(|road| unsafe { road.function::<Init>("cuInit") });
        let call = |init: Init| {
            for flags in 0..CALLS {
                assert_eq!(init(flags), c_int::try_from(flags).unwrap() + 1);
            }
        };
        for (one, other) in [(exported, exported), (exported, handed_out), (handed_out, handed_out)]
        {
            let (_, made) = calls.during(|| {
                std::thread::scope(|scope| {
                    scope.spawn(|| call(one));
                    scope.spawn(|| call(other));
                });
            });
            made.assert_exactly(&[("cuInit", 2 * u64::from(CALLS))]);
        }
    });
}

#[test]
fn each_version_handed_out_is_made_once_and_counted_under_the_name_asked_for() {
    let test = "each_version_handed_out_is_made_once_and_counted_under_the_name_asked_for";
    with_fake_driver(test, |calls| {
        let ask = |version| asked_for("cuMemAlloc", version).unwrap();
        let (old, new) = (ask(2000), ask(12000));
        assert_ne!(old, new, "two functions");
        assert_eq!([ask(2000), ask(3000), ask(11030), ask(12000)], [old, old, new, new]);
        // SAFETY: the type of both.
        let functions = unsafe {
            [old, new].map(|address| {
                std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(address)
            })
        };
        let (results, made) = calls.during(|| functions.map(|function| function()));
        assert_eq!(results, [1, 2]);
        assert_eq!(made.by_name().iter().collect::<Vec<_>>(), [(&"cuMemAlloc".to_owned(), &2)]);
    });
}

#[test]
fn what_is_asked_for_through_an_answer_is_counted_too() {
    with_fake_driver("what_is_asked_for_through_an_answer_is_counted_too", |calls| {
        // SAFETY: the type of that version.
        let ask: ProcAddress = unsafe { handed_out("cuGetProcAddress", 11030).unwrap() };
        let mut init = std::ptr::null_mut();
        // SAFETY: a string and a place for a pointer.
        let (code, made) = calls.during(|| unsafe { ask(c"cuInit".as_ptr(), &mut init, 12000, 0) });
        assert_eq!(code, 0);
        made.assert_exactly(&[("cuGetProcAddress", 1)]);
        assert_eq!(init, asked_for("cuInit", 12000).unwrap(), "the counted function again");
    });
}

#[test]
fn a_function_that_the_driver_lacks_is_found_by_neither_road() {
    with_fake_driver("a_function_that_the_driver_lacks_is_found_by_neither_road", |_| {
        for name in
            ["cuTensorMapEncodeTiled", "cuArray3DCreate", "cuWaitExternalSemaphoresAsync_ptsz"]
        {
            // SAFETY: not called.
            let error = unsafe { exported::<Init>(name) }.unwrap_err();
            // The loader's own words are in the source of the error.
            assert!(format!("{error:?}").contains("undefined symbol"), "{error:?}");
            assert_eq!(asked_for(name, 12000), Err(500), "{name}");
        }
        // SAFETY: the type of the fake function, whose neighbours in the table are hidden.
        let init = unsafe { exported::<Init>("cuInit") }.unwrap();
        assert_eq!(init(1), 2);
    });
}

#[test]
fn whoever_opens_the_driver_by_name_is_counted() {
    with_fake_driver("whoever_opens_the_driver_by_name_is_counted", |calls| {
        // The fake driver's own file: of all libraries the one that the loader could most easily
        // take for what it asks for.
        // SAFETY: its initialisers have run.
        let library = unsafe { libloading::Library::new(common::fake_driver()) }.unwrap();
        // SAFETY: the type of the fake function.
        let opens = unsafe { library.get::<Init>(c"fake_opens_the_driver_by_name") }.unwrap();
        let (answer, made) = calls.during(|| opens(41));
        assert_eq!(answer, 42);
        made.assert_exactly(&[("cuInit", 1)]);
    });
}

#[test]
fn tables_of_functions_without_names_are_counted_as_asked_for() {
    type Table = extern "C" fn(*mut *const c_void, *const c_void) -> c_int;
    with_fake_driver("tables_of_functions_without_names_are_counted_as_asked_for", |calls| {
        // SAFETY: the type of the fake function.
        let table = unsafe { exported::<Table>("cuGetExportTable") }.unwrap();
        let (_, made) = calls.during(|| table(std::ptr::null_mut(), std::ptr::null()));
        made.assert_exactly(&[("cuGetExportTable", 1)]);
    });
}

#[test]
fn functions_that_only_a_newer_driver_has_are_reported_and_still_counted_when_asked_for() {
    let test =
        "functions_that_only_a_newer_driver_has_are_reported_and_still_counted_when_asked_for";
    with_fake_driver(test, |calls| {
        assert_eq!(calls.unlisted().unwrap(), ["cuNotInventedYet"]);
        // SAFETY: the type of the fake function.
        let function: extern "C" fn() -> c_int =
            unsafe { handed_out("cuNotInventedYet", 99000).unwrap() };
        let (_, made) = calls.during(|| function());
        made.assert_exactly(&[("cuNotInventedYet", 1)]);
    });
}

/// The detector in red: one call too many, in a process where calls are counted.
#[test]
fn a_stray_call_fails_a_test() {
    with_fake_driver("a_stray_call_fails_a_test", |calls| {
        // SAFETY: the type of the fake function.
        let [init, stray] = ROADS.map(|road| unsafe { road.function::<Init>("cuInit") });
        let (_, one) = calls.during(|| init(0));
        one.assert_exactly(&[("cuInit", 1)]);
        let (_, two) = calls.during(|| init(0) + stray(0));
        let failed = std::panic::catch_unwind(|| two.assert_exactly(&[("cuInit", 1)]));
        let message = failed.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("cuInit x 2"), "{message}");
    });
}
