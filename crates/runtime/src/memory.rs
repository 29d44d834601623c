//! How the system hands out memory to this process.

/// Asks for small pages, for this process and those that it starts. Linux may hand out memory by 2 MiB, and clears all of it while a
/// thread waits, on a virtual machine for a millisecond and more; that thread's processor is taken from everybody else meanwhile. What
/// is allocated here is small, or lives for as long as a request.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn use_small_pages() {
    // Without it, the process is only less even.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// On Linux only; elsewhere pages are small.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn use_small_pages() {}
