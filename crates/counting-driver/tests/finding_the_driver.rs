//! Which driver the counting driver finds behind it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod common;

use std::ffi::c_int;
use std::path::Path;

use common::{exported, fake_driver, with_fake_driver};
use frazil_conformance::counting_driver::{CountedProcess, CountingDriver};

type Init = extern "C" fn(u32) -> c_int;

/// Two more come first on the path: a copy, and a link to itself.
#[test]
fn it_takes_no_counting_driver_for_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place.join("libcuda.so.1")
    };
    let (copy, link, fake) = (place("copy"), place("link"), place("fake"));
    let process = CountedProcess::new().unwrap();
    std::fs::copy(process.counting_driver(), &copy).unwrap();
    std::os::unix::fs::symlink(process.counting_driver(), &link).unwrap();
    std::fs::copy(fake_driver(), &fake).unwrap();
    let folders = [&copy, &link, &fake].map(|file| file.parent().unwrap());
    let process = process.with_variable("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
    process.run_test("it_takes_no_counting_driver_for_the_driver", |calls| {
        let found = calls.real_driver().unwrap();
        assert!(found.ends_with("fake/libcuda.so.1"), "{}", found.display());
        // SAFETY: the type of the fake function.
        let init = unsafe { exported::<Init>("cuInit") }.unwrap();
        let (answer, made) = calls.during(|| init(1));
        assert_eq!(answer, 2);
        made.assert_exactly(&[("cuInit", 1)]);
    });
}

/// A caller that tries the name without a version first gets the same library, and so do those who
/// come after it with the other name, which is that of the fake driver as well.
#[test]
fn opened_by_the_name_without_a_version_it_is_found_by_the_other_name() {
    // Before the first that is done otherwise in the child.
    let in_child = std::env::var_os("FRAZIL_COUNTED_TEST").is_some();
    // SAFETY: the initialisers are those of the counting driver and the fake one.
    let library = in_child.then(|| unsafe { libloading::Library::new("libcuda.so") }.unwrap());
    let test = "opened_by_the_name_without_a_version_it_is_found_by_the_other_name";
    with_fake_driver(test, |calls| {
        let library = library.unwrap();
        // SAFETY: the type of the fake function.
        let init = unsafe { library.get::<Init>(c"cuInit") }.unwrap();
        let (_, made) = calls.during(|| init(1));
        made.assert_exactly(&[("cuInit", 1)]);
    });
}

#[test]
fn without_a_driver_calls_say_so_and_standard_error_says_where_it_looked() {
    let test = "without_a_driver_calls_say_so_and_standard_error_says_where_it_looked";
    let process = CountedProcess::new().unwrap();
    let counting = process.counting_driver().to_owned();
    for (place, why) in [
        (Path::new("/nowhere/libcuda.so.1"), "no such file"),
        (counting.as_path(), "is a counting driver"),
        (Path::new("/proc/self/status"), "invalid ELF header"),
    ] {
        let process = process.clone().with_variable("FRAZIL_REAL_DRIVER", place);
        let printed = process.run_test(test, |calls| {
            assert_eq!(calls.real_driver(), None);
            assert_eq!(calls.unlisted(), None);
            // SAFETY: the type of the fake function, which is not there.
            let init = unsafe { exported::<Init>("cuInit") }.unwrap();
            let (code, made) = calls.during(|| init(0));
            assert_eq!(code, 34, "CUDA_ERROR_STUB_LIBRARY");
            made.assert_exactly(&[("cuInit", 1)]);
        });
        let Some(printed) = printed else { return };
        let line = "counting driver: no driver to pass calls on to; FRAZIL_REAL_DRIVER may say";
        assert!(printed.contains(line), "{printed}");
        assert!(printed.contains(&format!("{}: ", place.display())), "{printed}");
        assert!(printed.contains(why), "{printed}");
    }
}

/// A process whose `libcuda.so.1` is another, or that has none, has no counts.
#[test]
fn a_process_without_the_counting_driver_has_none_attached() {
    assert!(CountingDriver::attached().is_none());
}

#[test]
#[should_panic(expected = "there is no test `a_test_of_another_name`")]
fn a_test_that_is_not_there_is_not_taken_for_one_that_passed() {
    with_fake_driver("a_test_of_another_name", |_| {});
}

#[test]
fn a_failure_in_the_process_fails_the_test_and_is_shown() {
    let test = "a_failure_in_the_process_fails_the_test_and_is_shown";
    let run = || with_fake_driver(test, |_| panic!("seeded, on purpose"));
    // In the process itself it panics as it is; the test that started it sees that.
    if std::env::var_os("FRAZIL_COUNTED_TEST").is_some() {
        return run();
    }
    let message = std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("seeded, on purpose"), "{message}");
}
