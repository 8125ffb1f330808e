// Prints the memory of the machine in bytes, as the crate sysinfo reports it.
use sysinfo::System;

fn main() {
    let mut system = System::new();
    system.refresh_memory();
    println!("{}", system.total_memory());
}
