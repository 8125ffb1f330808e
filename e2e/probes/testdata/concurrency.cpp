// Prints the number of concurrent threads that the C++ library reports.
#include <iostream>
#include <thread>

int main() { std::cout << std::thread::hardware_concurrency() << std::endl; }
