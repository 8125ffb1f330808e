#include "textflag.h"

// func Line(at unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD at+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Lines(at unsafe.Pointer, count int)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD count+8(FP), R1
next:
	PRFM (R0), PLDL1KEEP
	ADD $64, R0
	SUBS $1, R1
	BGT next
	RET
