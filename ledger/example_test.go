package ledger_test

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/ledger"
)

// In ten seconds, containerd used three seconds of CPU time. Its samples divide them between two containers.
func ExampleSplit() {
	web, batch := ledger.Account{Container: "web", Kind: ledger.Log}, ledger.Account{Container: "batch", Kind: ledger.Log}
	per, rest := ledger.Split(3*time.Second, ledger.Samples{
		User: 500, Calls: 2000, // futex, epoll_wait
		Files: map[ledger.Account]ledger.IO{web: {Read: 180, Write: 220}, batch: {Read: 20, Write: 30}},
		Rest:  ledger.IO{Read: 40, Write: 10}, // API calls
	})
	fmt.Println("web  ", per[web].Round(10*time.Millisecond))
	fmt.Println("batch", per[batch].Round(10*time.Millisecond))
	fmt.Println("rest ", rest.Round(10*time.Millisecond))
	// Output:
	// web   2.29s
	// batch 260ms
	// rest  440ms
}

// A charge to a container that has ended is counted and dropped.
func ExampleBook() {
	var book ledger.Book
	book.Open("web")
	fmt.Println(book.Charge("web", ledger.Log, ledger.BPF, 20*time.Millisecond))
	fmt.Println(book.Charge("gone", ledger.Log, ledger.BPF, 5*time.Millisecond))
	fmt.Println(book.Charged("web"), "charged,", book.Dropped(), "dropped")
	// Output:
	// <nil>
	// cannot charge 5ms to container gone: unknown container
	// 20ms charged, 5ms dropped
}
