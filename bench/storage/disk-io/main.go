// Reads and writes a disk or a file, and prints MiB/s as JSON, for one operation at a time:
//
//	disk-io [-direct] [-seconds 3] [-mebibytes 128] PATH
//
// Everything that is read was written before, so that no hole is read. A write includes the time until it is on the
// disk.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const mebibyte = 1 << 20

// A block of random bytes at an address that O_DIRECT accepts.
func block(size int) []byte {
	const page = 4096
	bytes := make([]byte, size+page)
	start := page - int(uintptr(unsafe.Pointer(&bytes[0]))%page)
	rand.Read(bytes)
	return bytes[start : start+size]
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	direct := flag.Bool("direct", false, "with O_DIRECT")
	seconds := flag.Float64("seconds", 3, "the time for each operation")
	size := flag.Int("mebibytes", 128, "the part of the disk that is used")
	flag.Parse()
	flags := os.O_RDWR
	if *direct {
		flags |= syscall.O_DIRECT
	}
	file, err := os.OpenFile(flag.Arg(0), flags, 0)
	check(err)

	all := *size * mebibyte
	// Once over the whole part, and until the time is over if `isTimed`.
	run := func(length int, isRandom, isTimed bool, operation func([]byte, int64) (int, error)) float64 {
		buffer := block(length)
		count := all / length
		begin := time.Now()
		limit := time.Duration(*seconds * float64(time.Second))
		done := 0
		for ; isTimed || done < count; done++ {
			if isTimed && time.Since(begin) > limit {
				break
			}
			at := done % count
			if isRandom {
				at = rand.Intn(count)
			}
			_, err := operation(buffer, int64(at)*int64(length))
			check(err)
		}
		check(file.Sync())
		return float64(done) * float64(length) / mebibyte / time.Since(begin).Seconds()
	}
	run(mebibyte, false, false, file.WriteAt)
	results := map[string]float64{
		"sequentialWrite": run(mebibyte, false, true, file.WriteAt),
		"sequentialRead":  run(mebibyte, false, true, file.ReadAt),
		"randomWrite":     run(4096, true, true, file.WriteAt),
		"randomRead":      run(4096, true, true, file.ReadAt),
	}
	check(json.NewEncoder(os.Stdout).Encode(results))
}
