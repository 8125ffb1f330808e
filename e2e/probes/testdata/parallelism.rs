// Prints the parallelism that Rust's library reports. Rayon and Tokio start this number of threads.
fn main() {
    println!("{}", std::thread::available_parallelism().unwrap());
}
