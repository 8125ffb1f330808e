// What Rust says; Rayon and Tokio start as many threads.
fn main() {
    println!("{}", std::thread::available_parallelism().unwrap());
}
