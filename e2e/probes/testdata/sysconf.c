// What glibc says: sysconf onln | conf
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int conf = argc > 1 && strcmp(argv[1], "conf") == 0;
	printf("%ld\n", sysconf(conf ? _SC_NPROCESSORS_CONF : _SC_NPROCESSORS_ONLN));
	return 0;
}
