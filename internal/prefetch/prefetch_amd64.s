#include "textflag.h"

// func Line(at unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ at+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Lines(at unsafe.Pointer, count int)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), AX
	MOVQ count+8(FP), CX
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JG next
	RET
