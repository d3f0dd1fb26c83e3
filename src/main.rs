//! Entry point: parse, call, exit.

fn main() {
    println!("idem");
}
